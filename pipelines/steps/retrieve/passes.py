"""A pass of retrieve: units of work that write parts for the passes after it.

Each pass is a step within the step, in its work folder: its units report, one with a report is skipped, and
what a killed run left is swept. A pass begins when the one before it has ended; to Beam they are one
pipeline, whose graph has the same size for any number of units.

Units report their time in milliseconds. A unit's report stands after a kill, so its time is counted once,
however often the run is stopped; the last pass gives each block of questions its share, and the manifest has
the sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Part
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions

PlacedPart = tuple[Path, Part]
"""A part, and the folder in which it is."""
TIMES = ("bm25_ms", "dense_ms", "lists_ms")
"""Counts of milliseconds: for BM25; for dense vectors, the encoding of questions included; and for all else,
such as merging lists and fetching passages."""


class Timer:
    """Seconds of a unit from now on, by the clock."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def on(self, source: str) -> Iterator[None]:
        """Count the block as work of 'bm25' or 'dense'."""
        began = time.perf_counter()
        yield
        self._seconds[source] = self._seconds.get(source, 0.0) + time.perf_counter() - began

    def counts(self) -> PassCounts:
        """Milliseconds so far, by the names in TIMES; work of no source counts as 'lists_ms'."""
        rest = time.perf_counter() - self._began - sum(self._seconds.values())
        return _times({f"{name}_ms": round(1000 * s) for name, s in {**self._seconds, "lists": rest}.items()})


def _times(milliseconds: Mapping[str, int]) -> PassCounts:
    """Milliseconds by the names in TIMES, as counts."""
    bm25, dense, lists = (milliseconds.get(name, 0) for name in TIMES)
    return PassCounts(bm25_ms=bm25, dense_ms=dense, lists_ms=lists)


def add_times(counts: Iterable[PassCounts]) -> PassCounts:
    """The sums of the milliseconds of some counts."""
    addends = list(counts)
    return _times({name: sum(getattr(addend, name) for addend in addends) for name in TIMES})


def share(times: PassCounts, blocks: range, whole: range, asked: AskedQuestions) -> PassCounts:
    """The share of `blocks`, by their questions, in the milliseconds of all of `whole`; both are places in
    the file.

    The shares of ranges that follow each other add up to the whole.
    """
    before, after, total = (
        asked.questions_in(range(whole.start, end)) for end in (blocks.start, blocks.stop, whole.stop)
    )
    milliseconds = {name: getattr(times, name) for name in TIMES}
    return _times({name: ms * after // total - ms * before // total for name, ms in milliseconds.items()})


def folder_of(folder: str, batch: int, spans_batches: bool) -> str:
    """Name of the folder in which a pass has the parts of a batch."""
    return f"{folder}-{batch:05d}" if spans_batches else folder


@dataclass(frozen=True)
class Pass:
    """Some units of work, and the parts that they write for each batch of questions."""

    step: Step[PassCounts]
    folder: str
    units: int
    in_batch: int
    """Number of parts of a batch."""
    spans_batches: bool = False
    """True if a unit writes a part for each batch, into a folder for each; else one for its own batch."""

    def folder_of(self, batch: int) -> str:
        return folder_of(self.folder, batch, self.spans_batches)

    def write(self, unit: int, parts: Mapping[str, Sequence[Part]], counts: PassCounts) -> None:
        """Report a unit."""
        self.step.reports.write(Report(unit, parts, counts))

    def report(self, unit: int) -> Report[PassCounts]:
        """A unit's report. Raises JobError (74), with the reason, if it has failed."""
        report = self.step.reports.read_one(unit)
        if report is None:
            Commit(self.step).reported(self.units)
            report = self.step.reports.read_one(unit)
            assert report is not None  # it was written meanwhile, or `reported` had raised
        return report

    def parts(self, batch: int, numbers: Iterable[int]) -> list[PlacedPart]:
        """Parts of a batch, by their numbers from 0. Raises as `report`."""
        folder = self.folder_of(batch)
        return [
            (self.step.run / folder, self.report(unit).parts[folder][0])
            for unit in self._units(batch, numbers)
        ]

    def _units(self, batch: int, numbers: Iterable[int]) -> Iterator[int]:
        return (number if self.spans_batches else batch * self.in_batch + number for number in numbers)

    def all_parts(self, batch: int = 0) -> list[PlacedPart]:
        """The parts of a batch, in the order of their numbers."""
        return self.parts(batch, range(self.in_batch))

    def times(self, batch: int, numbers: Iterable[int], blocks: range, asked: AskedQuestions) -> PassCounts:
        """The share that `blocks` of a batch have of the milliseconds of its parts. Raises as `report`."""
        whole = range(asked.blocks) if self.spans_batches else asked.batch(batch)
        times = add_times(self.report(unit).counts for unit in self._units(batch, numbers))
        return share(times, blocks, whole, asked)


@dataclass(frozen=True)
class Turn:
    """A pass in its turn: its label, the work of its units, and the number of questions of each unit, for
    progress."""

    label: str
    step: Step[Any]
    work: UnitWork
    sizes: Sequence[int]
    numbers: Callable[[], Iterable[int]]


def define(engine: Engine, turns: Iterable[Turn]) -> None:
    """Define one pass after the other, each with the units that have no report by then."""
    done = None
    for turn in turns:
        done = engine.each(turn.label, Units(turn.numbers, but=turn.step.reports), turn.work, after=done)
