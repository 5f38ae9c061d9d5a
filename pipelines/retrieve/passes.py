"""A pass of retrieve: units of work that write parts for the passes after it.

Each pass is a step within the step, in its work folder: its units report, one with a report is skipped, and what a killed run
left is swept. All passes are one Beam pipeline, in which a pass begins when the one before it has ended; its graph has the
same size for any number of units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.combiners import Count

from pipelines.execution.manifests.reports import Report, Reports
from pipelines.execution.parquet_folder import Part
from pipelines.execution.step import Step
from pipelines.execution.unit_dofn import UnitDoFn
from schemas.record import Record

PlacedPart = tuple[Path, Part]
"""A part, and the folder in which it is."""


def within(step: Step, name: str, outputs: Mapping[str, type[Record]], inputs: Mapping[str, str]) -> Step:
    """A step in the work folder of `step`, whose folders are there too."""
    return replace(
        step,
        run=step.work,
        name=f"{step.name}/{name}",
        outputs=outputs,
        settings={},
        inputs=inputs,
        units_stand_alone=False,
        if_failed="",
    )


@dataclass(frozen=True)
class Pass:
    """Some units of work, and what they write: parts for each batch of questions."""

    step: Step
    folder: str
    units: int
    in_batch: int
    """How many parts a batch has."""
    spans_batches: bool = False
    """Whether a unit writes a part for each batch, into a folder for each; else one for its own batch."""

    def folder_of(self, batch: int) -> str:
        return f"{self.folder}-{batch:05d}" if self.spans_batches else self.folder

    def write(self, unit: int, parts: Mapping[str, Sequence[Part]], counts: Mapping[str, int]) -> None:
        """Report a unit."""
        self.step.reports.write(Report(unit, parts, counts))

    def report(self, unit: int) -> Report:
        """A unit's report. Raises JobError (74), which says why, if it has failed."""
        report = self.step.reports.read_one(unit)
        if report is None:
            self.step.reported(self.units)
            report = self.step.reports.read_one(unit)
            assert report is not None  # it came meanwhile, or there had been an error
        return report

    def parts(self, batch: int, numbers: Iterable[int]) -> list[PlacedPart]:
        """Parts of a batch, by their numbers from 0. Raises as `report`."""
        folder = self.folder_of(batch)
        units = (number if self.spans_batches else batch * self.in_batch + number for number in numbers)
        return [(self.step.run / folder, self.report(unit).parts[folder][0]) for unit in units]

    def all_parts(self, batch: int = 0) -> list[PlacedPart]:
        """The parts of a batch, in the order of their numbers."""
        return self.parts(batch, range(self.in_batch))


class InTurn(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """Does units, those that have no report yet, when all that comes in is done."""

    def __init__(self, work: UnitDoFn, reports: Reports, numbers: Callable[[], Iterable[int]]) -> None:
        super().__init__()
        self._work, self._reports, self._numbers = work, reports, numbers

    def expand(self, before: PCollection[Any]) -> PCollection[Any]:
        units: PCollection[Any] = (
            before
            | "When all is done" >> Count.Globally()
            | "Units" >> beam.FlatMap(_pending, self._reports, self._numbers)  # (unit,)
            | "Over the workers" >> beam.Reshuffle()
        )
        done: PCollection[Any] = units | "Work" >> beam.ParDo(self._work)
        return done


def _pending(_done: int, reports: Reports, numbers: Callable[[], Iterable[int]]) -> Iterator[tuple[int]]:
    reported = reports.numbers()
    yield from ((number,) for number in numbers() if number not in reported)


@dataclass(frozen=True)
class Turn:
    """A pass in its turn: what it is called, what does its units, and how many questions each unit is about, for progress."""

    label: str
    step: Step
    work: UnitDoFn
    sizes: Sequence[int]
    numbers: Callable[[], Iterable[int]]


def define(root: beam.Pipeline, turns: Iterable[Turn]) -> None:
    """The pipeline: one pass after the other."""
    done: PCollection[Any] = root | beam.Impulse()
    for turn in turns:
        done = done | turn.label >> InTurn(turn.work, turn.step.reports, turn.numbers)
