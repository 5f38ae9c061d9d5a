"""An engine: all that a step needs of whatever carries its work. It does units, and groups values by key.

`LocalEngine` does the work on this machine, call by call. `BeamEngine` makes one pipeline of all calls, for
any of Apache Beam's runners. The same units give the same bytes by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from answermill.pipelines.engine.unit_work import Metrics, UnitWork, Work
from answermill.pipelines.runs.manifests.reports import Reports

Key: TypeAlias = Any
"""A whole number, a text, or a tuple of these."""
Pairs: TypeAlias = Any
"""(key, value) pairs as an engine holds them: places on the disk, or a collection of Beam's."""
GroupFunction: TypeAlias = Callable[[Any, Iterable[Any]], Iterable[tuple[Key, Any]]]
"""A key and all its values, in any order → further pairs."""


@dataclass(frozen=True, slots=True)
class Units:
    """Units by their numbers, without those that have a report among `but` when the work begins.

    Their size when sent does not depend on their number: a function looks up a unit's file, part or range of
    rows in what it reads when it loads.
    """

    numbers: Callable[[], Iterable[int]]
    but: Reports[Any] | None = None

    @classmethod
    def first(cls, count: int, but: Reports[Any] | None = None) -> Units:
        """The units from 0 to `count` - 1."""
        return cls(partial(range, count), but)

    def pending(self) -> Iterator[int]:
        done = self.but.numbers() if self.but is not None else set()
        return (number for number in self.numbers() if number not in done)


class Engine(Protocol):
    """Carries work; `label` names it in the pages of an engine that has some."""

    def each(self, label: str, units: Units, work: UnitWork, after: Pairs = None) -> Pairs:
        """Do each unit, as the element (number,), when all of `after` is done; return the pairs that they
        emit."""

    def group(
        self, label: str, pairs: Sequence[Pairs], work: UnitWork | GroupFunction, every: Units | None = None
    ) -> Pairs:
        """Call `work` with each key and all its values in the pairs; return the pairs that it emits.

        `every`: units that are keys even if no pair has them; then they have no values.
        """


class KeyWork(Work):
    """A function of a key and its values, as work."""

    def __init__(self, name: str, function: GroupFunction) -> None:
        self.name, self._function = name, function

    def process(self, element: Any, metrics: Metrics | None = None) -> Iterable[Any]:
        return self._function(*element)

    def place(self, key: Key) -> str:
        return f"{self.name}, key {key}"


def as_work(label: str, work: UnitWork | GroupFunction) -> Work:
    return work if isinstance(work, UnitWork) else KeyWork(label, work)
