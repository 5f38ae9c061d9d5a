"""Readable parts of a run's folder: all, or, of a step that runs or was stopped, those of completed units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.manifests.reports import Reports
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.runs.spec import FolderSpec
from answermill.pipelines.runs.step import state_of, work_folders
from answermill.pipelines.specs.registry import spec_of
from answermill.schemas.record import Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class WrittenParts(Generic[R]):
    """The parts of a folder that can be read."""

    folder: Path
    record: type[R]
    by_unit: Mapping[int, Sequence[Part]]
    missing: str
    """Reason why parts are missing, a clause for people; '' if the folder is complete."""

    @classmethod
    def of(cls, run: Path, spec: FolderSpec[R]) -> WrittenParts[R]:
        """The parts of one of the run's folders. Raises JobError (65) if another version wrote it."""
        folder, step = run / spec.name, spec_of(spec.maker.step)
        if (complete := spec.find(run)) is not None:
            by_unit: dict[int, list[Part]] = {}
            for part in complete.parts:
                by_unit.setdefault(part.unit, []).append(part)
            return cls(folder, spec.record, by_unit, "")

        missing = f"{spec.maker.step} {state_of(run, spec.maker.step)}"
        work = work_folders(run, spec.maker.step)
        reports = Reports(work[0], step.counts).read() if work and step is not None else {}
        parts = {
            unit: report.parts[spec.name] for unit, report in reports.items() if spec.name in report.parts
        }

        return cls(folder, spec.record, parts, missing)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(unit, batch) of all readable parts."""
        for unit, parts in self.by_unit.items():
            for part in parts:
                for batch in read_batches(self.folder, part, columns, rows=8_192):
                    yield unit, batch

    def question_rows(self, question_id: str, unit: int | None = None) -> list[R]:
        """Rows of one question, in their order; `unit`: the only unit with such rows, if it is known."""
        rows: list[R] = []
        for number in self.by_unit if unit is None else (unit,):
            for part in self.by_unit.get(number, ()):
                for batch in read_batches(self.folder, part):
                    rows += self.record.rows(batch.filter(pc.equal(batch["question_id"], question_id)))
        return rows
