"""What all Beam functions here have in common: a worker process does one unit at a time, whatever the engine does.

Engines such as Flink, Spark and Dataflow give one process several units at once, on threads. Java's bridge, lazy imports and
the costs that a model counts are not safe for that. So one lock guards all units of a process; what puts cores to work is more
processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import Any

import apache_beam as beam

from pipelines.execution.step import Reports

_one_at_a_time = RLock()
_loaded: dict[type[UnitDoFn], UnitDoFn] = {}
"""The last one of each class that loaded. Beam lets go of one that was idle for a minute; what it loaded stays until a unit of
another step comes to this process."""


class UnitDoFn(beam.DoFn):
    """Does units of a step; an element is a tuple that begins with the unit's number.

    A unit with a report in `reports` is skipped: engines give out the same units again. Subclasses define `work`, and `load`
    for what a worker process loads once; both run alone in their process, from the first import to the last result.
    """

    def __init__(self, step: str, reports: Reports | None = None) -> None:
        self._step_name, self._reports = step, reports

    def prepare(self) -> None:
        """Called before `load` and before each `work`, in their thread, whose settings it may change."""

    def load(self) -> None:
        """Load what all units need."""

    def work(self, unit: int, *rest: Any) -> Iterable[Any] | None:
        """Do a unit, from the rest of its element and the side inputs; returns what it emits."""
        raise NotImplementedError

    def setup(self) -> None:
        with _one_at_a_time:
            self.prepare()
            self.load()
            if any(other._step_name != self._step_name for other in _loaded.values()):
                _loaded.clear()
            _loaded[type(self)] = self

    def default_type_hints(self) -> None:
        """None, so that Beam takes anything: the types of `process` are those of no unit in particular."""

    def process(self, element: Any, *side_inputs: Any) -> list[Any]:
        unit, *rest = element
        with _one_at_a_time:
            if self._reports is not None and self._reports.read_one(unit) is not None:
                return []
            self.prepare()
            return list(self.work(unit, *rest, *side_inputs) or ())
