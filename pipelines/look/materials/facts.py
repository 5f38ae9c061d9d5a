"""Materials and the table of facts about public ones, `facts.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from answermill.pipelines.data.licences import is_restricted, spdx

FACTS = Path(__file__).with_name("facts.toml")
Kind = Literal["run", "checkpoint", "model", "weights", "data set", "pages", "labels"]


@dataclass(frozen=True, slots=True)
class Link:
    """A material that another rests on."""

    name: str
    way: str
    """In which way, e.g. 'body', 'trained on'."""


@dataclass(frozen=True, slots=True)
class Material:
    """A model, a data set, or what is made of them."""

    name: str
    kind: Kind
    licence: str = ""
    """As its source writes it; '' if not known."""
    source: str = ""
    """Where the licence is stated."""
    restricted: str = ""
    """What its terms allow, if that is not commercial use."""
    rests_on: tuple[Link, ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)
    """Other names that cards and settings give it."""

    @property
    def spdx(self) -> str | None:
        """SPDX expression of its licence; None if it has none."""
        return spdx(self.licence)

    @property
    def restriction(self) -> str:
        """Why it is not for commercial use, in words; '' if nothing says so."""
        return self.restricted or (self.licence if is_restricted(self.licence) else "")


@cache
def known() -> Mapping[str, Material]:
    """Name → material, of all in the table."""
    tables = tomllib.loads(FACTS.read_text(encoding="utf-8"))
    return {name: _material(name, dict(table)) for name, table in tables.items()}


def _material(name: str, table: dict[str, object]) -> Material:
    rests_on = table.pop("rests_on", {})
    assert isinstance(rests_on, dict)  # the table is ours
    links = tuple(Link(other, way) for way, others in rests_on.items() for other in others)
    names = table.pop("names", ())
    assert isinstance(names, list | tuple)
    return Material(name, rests_on=links, names=tuple(names), **table)  # type: ignore[arg-type]


def find(name: str) -> Material | None:
    """The material in the table of exactly this name, or one of its other names; a hub's owner may stand
    before it."""
    wanted = {name.casefold(), name.rpartition("/")[2].casefold()}
    for material in known().values():
        if wanted & {each.casefold() for each in (material.name, *material.names)}:
            return material
    return None


def named_in(text: str) -> Iterator[Material]:
    """Data sets of the table that a text names, in the table's order.

    >>> [material.name for material in named_in("SQuADShifts, and QED train (2021)")]
    ['QED', 'SQuADShifts']
    """
    for material in known().values():
        names = "|".join(re.escape(name) for name in (material.name, *material.names))
        if material.kind == "data set" and re.search(rf"(?<![\w-])({names})(?![\w-])", text, re.IGNORECASE):
            yield material
