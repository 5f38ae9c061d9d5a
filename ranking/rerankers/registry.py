"""Registry of rerankers by name: ours, and those of plug-ins (`answermill.schemas.plug_ins`)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answermill.ranking.entry import Entry, StageBefore, StageSettings, Training, checked_class, resolve
from answermill.ranking.reranker import LoadEncoder, Reranker, Resources, SentenceEncoder, no_encoder_of
from answermill.schemas import plug_ins

PACKAGES = (
    "answermill.ranking.rerankers.baselines",
    "answermill.ranking.rerankers.cascade",
    "answermill.ranking.rerankers.cosinet",
    "answermill.ranking.rerankers.blend",
    "answermill.ranking.rerankers.hashing",
    "answermill.ranking.rerankers.multihead",
    "answermill.ranking.rerankers.peasi",
    "answermill.ranking.rerankers.pretrained",
    "answermill.ranking.rerankers.probability",
    "answermill.ranking.rerankers.support",
)
"""One line per method. Each package's `ENTRIES` declare its rerankers; importing it imports neither torch nor
a model."""


def entries(packages: Iterable[str]) -> dict[str, Entry]:
    """Name → entry, for all rerankers that the packages declare. Raises ValueError if two have one name."""
    named: dict[str, Entry] = {}
    for package in packages:
        for entry in resolve(f"{package}:ENTRIES"):
            if entry.name in named:
                raise ValueError(
                    f"{package} declares {entry.name!r}, which another package has declared; rename one"
                )
            named[entry.name] = entry
    return named


RERANKERS = entries(PACKAGES)
FORMER = {entry.former: entry for entry in RERANKERS.values() if entry.former}
"""Former name → entry."""
_given: dict[str, GivenEntry] = {}


def find(name: str) -> Entry:
    """The reranker of that name, or former name. Raises ValueError with the known names and the nearest
    one."""
    if name in RERANKERS:
        return RERANKERS[name]
    if name in FORMER:
        return FORMER[name]
    if name in _given:
        return _given[name]
    if plug_ins.is_known(plug_ins.RERANKERS, name):
        return _plugged_in(name)
    near = difflib.get_close_matches(name, known(), n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(f"unknown reranker {name!r}{suggestion} Known: {', '.join(sorted(known()))}")


@dataclass(frozen=True, slots=True)
class GivenEntry(Entry):
    """Entry of a reranker that the caller has built."""

    instance: Any = None

    def reranker_of(self, stage: StageSettings | Mapping[str, Any]) -> type[Reranker]:
        kind: type[Reranker] = type(self.instance)
        return kind

    def load(self, resources: Resources) -> Reranker:
        reranker: Reranker = self.instance
        return reranker


@contextmanager
def giving(reranker: Reranker) -> Iterator[str]:
    """The name by which `find` knows a reranker that the caller has built, in the block; in a plan its key is
    the reranker's own name."""
    name = f"given_{id(reranker)}:{reranker.name}"
    _given[name] = GivenEntry(name, "", instance=reranker)
    try:
        yield name
    finally:
        del _given[name]


def known() -> dict[str, Entry]:
    """Name → entry of all rerankers that a list shows: ours, and those of installed plug-ins."""
    return plug_ins.usable(plug_ins.RERANKERS, _plugged_in) | RERANKERS


def code_digest(name: str) -> str | None:
    """Revision of the code of a plug-in's reranker; None for one of ours."""
    is_ours = name in RERANKERS or name in FORMER or name in _given
    return None if is_ours else plug_ins.digest(plug_ins.RERANKERS, name)


def _plugged_in(name: str) -> Entry:
    """Entry of a plug-in: its `Entry`, or one for a class that has the members of `Reranker`, and maybe
    `Settings`, the class of its stage's keys. Raises PlugInUnusable if it is neither."""
    plug_in = plug_ins.load(plug_ins.RERANKERS, name)
    if isinstance(plug_in, Entry):
        entry = replace(plug_in, name=name)
    else:
        settings = getattr(checked_class(name, plug_in), "Settings", StageSettings)
        entry = Entry(name, plug_ins.place_of(plug_ins.RERANKERS, name), settings)
    if not (isinstance(entry.settings, type) and issubclass(entry.settings, StageSettings)):
        raise plug_ins.PlugInUnusable(
            f"the reranker {name!r} names {entry.settings!r} as its keys; they are a subclass of "
            "StageSettings"
        )
    return entry


def trainings() -> dict[str, Training]:
    """Checkpoint format → its training, for all rerankers whose entries have one."""
    return {
        entry.checkpoint: entry.training for entry in known().values() if entry.checkpoint and entry.training
    }


def no_encoder() -> SentenceEncoder:
    raise ValueError("the reranker needs a sentence encoder, and none is given")


def load_reranker(
    name: str,
    checkpoint: str | Path | None = None,
    *,
    encoder: Callable[[], SentenceEncoder] = no_encoder,
    model: Callable[[str], Path] = Path,
    encoder_of: LoadEncoder = no_encoder_of,
    device: str = "cpu",
    before: Sequence[StageBefore] = (),
    **settings: Any,
) -> Reranker:
    """A reranker by itself, outside of any plan. `settings` are the keys of its stage; the rest is as in
    `Resources`.

    Raises ValueError if there is no such reranker, a setting is wrong, or the checkpoint is missing or
    unusable.
    """
    entry = find(name)
    return entry.load(
        Resources(
            settings=entry.stage(**settings),
            checkpoint=entry.folder(checkpoint, model),
            encoder=encoder,
            model=model,
            device=device,
            before=tuple(before),
            encoder_of=encoder_of,
        )
    )
