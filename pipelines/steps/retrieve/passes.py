"""A pass of retrieve: units of work that write parts for the passes after it.

Each pass is a step within the step, in its work folder: its units report, one with a report is skipped, and
what a killed run left is swept. A pass begins when the one before it has ended; to Beam they are one
pipeline, whose graph has the same size for any number of units.

Units report their time in milliseconds. A unit's report stands after a kill, so its time is counted once,
however often the run is stopped; the manifest has the sum.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from answermill.files.store import in_parallel, requests_to
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Part, read_batches
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import PassCounts

TIMES = ("bm25_ms", "dense_ms", "lists_ms")
"""Counts of milliseconds: for BM25; for dense vectors, the encoding of questions included; for all else."""
ON_CARD = "dense_card_ms"
"""Count of milliseconds, among those for dense vectors, of work on a graphics card."""
PlacedPart = tuple[Path, Part]
"""A part, and the folder in which it is."""


class Timer:
    """Seconds of a unit from now on, by the clock."""

    def __init__(self, on_card: bool = False) -> None:
        """`on_card`: a graphics card does the work of dense vectors."""
        self._began, self._on_card = time.perf_counter(), on_card
        self._seconds = {"bm25": 0.0, "dense": 0.0}

    @contextmanager
    def on(self, source: str) -> Iterator[None]:
        """Count the block as work of 'bm25' or 'dense'."""
        began = time.perf_counter()
        yield
        self._seconds[source] += time.perf_counter() - began

    def counts(self) -> PassCounts:
        """Milliseconds so far; work of no source counts as 'lists_ms'."""
        bm25, dense = self._seconds.values()
        rest = time.perf_counter() - self._began - bm25 - dense
        dense_ms = round(1000 * dense)
        return PassCounts(
            bm25_ms=round(1000 * bm25),
            dense_ms=dense_ms,
            dense_card_ms=dense_ms if self._on_card else 0,
            lists_ms=round(1000 * rest),
        )


@dataclass(frozen=True)
class Pass:
    """Some units of work, and the parts that they write."""

    step: Step[Any]
    units: int

    @property
    def folder(self) -> Path:
        """Folder of the parts."""
        return self.step.run / self.step.spec.folders[0].name

    def write(self, unit: int, parts: Sequence[Part], counts: StepCounts) -> None:
        """Report a unit."""
        self.step.reports.write(Report(unit, {self.folder.name: parts} if parts else {}, counts))

    def reports(self, units: Iterable[int]) -> list[Report[Any]]:
        """Reports of some units. Raises JobError (74), with the reason, if one has failed."""
        wanted = list(units)
        read = in_parallel(self.step.reports.read_one, wanted, requests_to(self.step.work))
        reports = [report for report in read if report is not None]
        if len(reports) < len(wanted):
            Commit(self.step).reported(self.units)  # raises, unless the last was written just now
            return self.reports(wanted)
        return reports

    def parts(self, units: Iterable[int], number: int = 0) -> list[PlacedPart]:
        """The part of this number of each of some units. Raises as `reports`."""
        folder = self.folder
        return [(folder, report.parts[folder.name][number]) for report in self.reports(units)]


def by_block(part: PlacedPart) -> list[tuple[int, pa.Table]]:
    """(number, its rows) of each block that has rows in a part whose rows are in the order of their first
    column, 'block'."""
    batches = list(read_batches(*part, rows=65_536))
    if not batches:
        return []
    table = pa.Table.from_batches(batches).combine_chunks()
    blocks = table["block"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
    return [(int(blocks[start]), table.slice(start, end - start)) for start, end in pairwise(edges)]


@dataclass(frozen=True)
class Turn:
    """A pass in its turn: its label, the work of its units, and the number of questions of each unit, for
    progress."""

    label: str
    target: Pass
    work: UnitWork
    sizes: Sequence[int]


def define(engine: Engine, turns: Iterable[Turn]) -> None:
    """Define one pass after the other, each with the units that have no report by then."""
    done = None
    for turn in turns:
        units = Units.first(turn.target.units, but=turn.target.step.reports)
        done = engine.each(turn.label, units, turn.work, after=done)
