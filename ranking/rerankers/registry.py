"""Registry of rerankers by name. A job can use these rerankers and no others: configuration names no
class."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from answermill.ranking.entry import Entry, StageBefore, Training, resolve
from answermill.ranking.reranker import LoadEncoder, Reranker, Resources, SentenceEncoder, no_encoder_of

PACKAGES = (
    "answermill.ranking.rerankers.baselines",
    "answermill.ranking.rerankers.cascade",
    "answermill.ranking.rerankers.cosinet",
    "answermill.ranking.rerankers.blend",
    "answermill.ranking.rerankers.hashing",
    "answermill.ranking.rerankers.multihead",
    "answermill.ranking.rerankers.peasi",
    "answermill.ranking.rerankers.pretrained",
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


def find(name: str) -> Entry:
    """The reranker of that name, or former name. Raises ValueError with the known names and the nearest
    one."""
    if name in RERANKERS:
        return RERANKERS[name]
    if name in FORMER:
        return FORMER[name]
    near = difflib.get_close_matches(name, RERANKERS, n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown reranker {name!r}{suggestion} Known: {', '.join(sorted(RERANKERS))}")


def trainings() -> dict[str, Training]:
    """Checkpoint format → its training, for all rerankers whose entries have one."""
    return {
        entry.checkpoint: entry.training
        for entry in RERANKERS.values()
        if entry.checkpoint and entry.training
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
