"""A bill of materials: a part, all that it rests on, and what its maker should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.indexing.shards.dense import DEFAULT
from answermill.indexing.shards.encoders.sliced_model import BASE
from answermill.pipelines.data.push import MODEL_FILES
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.look.materials import cards, of_run
from answermill.pipelines.look.materials.facts import Kind, Material
from answermill.pipelines.runs.manifests.run_folder import committed
from answermill.ranking.entry import shipped_checkpoints

NOT_KNOWN = "not known here"
_KINDS: Mapping[str, Kind] = dict.fromkeys(("begun with", "EASI begun with", "taught by", "body"), "model")
"""Way → kind of what a card names without facts; a data set in all others."""
_SHOWN = 40
"""Most letters of a name in the table; JSON has all."""
_HEAD = ("material", "kind", "licence", "used by")


@dataclass(frozen=True, slots=True)
class Bill:
    """All materials of some parts, a part before what it rests on."""

    materials: Sequence[Material]

    @property
    def users(self) -> Mapping[str, Mapping[str, list[str]]]:
        """Material → way → names of what rests on it in this way."""
        users: dict[str, dict[str, list[str]]] = {material.name: {} for material in self.materials}
        for material in self.materials:
            for link in material.rests_on:
                users[link.name].setdefault(link.way, []).append(material.name)
        return users

    def resting_on(self, name: str) -> list[str]:
        """Names of all that rests on a material, by whatever way, in the bill's order."""
        reached, users = {name}, self.users
        rest = [name]
        while rest:
            new = {user for names in users[rest.pop()].values() for user in names} - reached
            reached |= new
            rest += sorted(new)
        return [material.name for material in self.materials if material.name in reached - {name}]

    def warnings(self) -> Iterator[str]:
        """A line for each material that is not for commercial use; and one on those of unknown licence."""
        for material in self.materials:
            if material.restriction:
                users = self.resting_on(material.name)
                on_it = f"; on it rest {', '.join(map(_short, users))}" if users else ""
                ways = _ways(self.users[material.name])
                yield f"{material.name}: {material.restriction}{f' ({ways})' if ways else ''}{on_it}"

        unknown = [m.name for m in self.materials if not (m.licence or m.restricted or m.kind == "run")]
        if unknown:
            yield f"licence {NOT_KNOWN}, read their terms: {', '.join(map(_short, unknown))}"

    def lines(self) -> Iterator[str]:
        """The table, then the warnings."""
        users = self.users
        rows = [_HEAD, *((_short(m.name), m.kind, _licence(m), _ways(users[m.name])) for m in self.materials)]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD) - 1)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            yield "  ".join([*cells, row[-1]]).rstrip()
        if warnings := [*self.warnings()]:
            yield ""
            yield from (f"warning: {line}" for line in warnings)

    def as_json(self) -> dict[str, Any]:
        """The bill for programs."""
        materials = [
            {
                "name": material.name,
                "kind": material.kind,
                "licence": material.licence or None,
                "spdx": material.spdx,
                "restriction": material.restriction or None,
                "source": material.source or None,
                "rests_on": [{"name": link.name, "way": link.way} for link in material.rests_on],
            }
            for material in self.materials
        ]
        return {"materials": materials, "warnings": list(self.warnings())}


def bill(part: Path | None) -> Bill:
    """The bill of a run, a checkpoint, another model or a data set; without a part that of what ships.

    `part` may be the name of a shipped checkpoint or of a public model. Raises JobError: 66 if there is no
    such folder or name, 65 if the folder is none of these.
    """
    if part is None:
        return Bill(list(_closure(_shipped())))
    if not part.exists():
        known = cards.named(str(part))
        if not known:
            ours = ", ".join(shipped_checkpoints())
            raise JobError(
                f"no folder {part}, and no model of this name in the table; give the folder of a run, a "
                f"checkpoint or a data set, or one of {ours}, {DEFAULT}, {BASE.name}",
                INPUT_MISSING,
            )
        return Bill(list(_closure(known)))

    name = part.resolve().name if not part.name else part.name
    if committed(part):
        return Bill(list(_closure(of_run.of_run(part, name))))
    if any((part / file).is_file() for file in MODEL_FILES):
        return Bill(list(_closure(cards.of_model(part, name))))
    if any((part / file).is_file() for file in cards.SET_FILES):
        return Bill(list(_closure(cards.of_set(part, name))))
    raise JobError(
        f"{part}: neither a run, nor a model (no config.json), nor a data set (no README.md); give another "
        "folder",
        BAD_DATA,
    )


def warnings_of(folder: Path) -> list[str]:
    """What to know before a folder is given to others; nothing if it is no model and no data set. Raises
    JobError (65) if its card is damaged."""
    is_known = any((folder / file).is_file() for file in (*MODEL_FILES, *cards.SET_FILES))
    return list(bill(folder).warnings()) if is_known else []


def _shipped() -> Iterator[Material]:
    """What the package brings, or can load by name."""
    for name in (*shipped_checkpoints(), DEFAULT, BASE.name, of_run.WEIGHTS, of_run.SAMPLE):
        yield from cards.named(name)


def _closure(parts: Iterable[Material]) -> Iterator[Material]:
    """The materials and all that they rest on, each once; of a name that nothing knows, only the name."""
    waiting = {material.name: material for material in parts}
    seen = set[str]()
    while waiting:
        name = next(iter(waiting))
        material = waiting.pop(name)
        seen.add(name)
        yield material
        for link in material.rests_on:
            if link.name not in seen | waiting.keys():
                facts = cards.named(link.name) or [Material(link.name, _KINDS.get(link.way, "data set"))]
                waiting |= {each.name: each for each in facts if each.name not in seen | waiting.keys()}


def _licence(material: Material) -> str:
    known = material.spdx or material.licence or material.restricted
    return known or ("" if material.kind == "run" else NOT_KNOWN)


def _ways(users: Mapping[str, Sequence[str]]) -> str:
    """Those that rest on a material, for a table."""
    return "; ".join(f"{way}: {', '.join(map(_short, names))}" for way, names in users.items())


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN].rstrip(' (,')}…"
