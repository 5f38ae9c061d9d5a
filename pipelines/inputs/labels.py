"""The labels that a job propagates: a file of the user's, or what `collect` wrote, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from indexing.labels.given_labels import GIVEN, Contradiction, GivenLabels
from pipelines.config.job_file import Job
from pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError
from pipelines.execution.parquet_folder import Folder, read_batches
from pipelines.inputs.tables import label_batches
from schemas.annotation import ResolvedLabel
from schemas.atomic_files import sha256

COLLECTED = "collected/labels"


@dataclass(frozen=True)
class Labels:
    """Where the given labels stand: a file of the user's, or what `collect` wrote."""

    path: Path
    name: str
    """As rejects and errors call it."""
    collected: Folder[ResolvedLabel] | None = None

    @classmethod
    def of(cls, job: Job, run: Path) -> Labels:
        """Raises JobError where they are not there, or the job has no [propagate]."""
        if job.propagate is None:
            raise JobError("the job has no [propagate] section; add one with `labels`", SETTINGS)
        if job.propagate.labels is None:
            folder = run / COLLECTED
            return cls(folder, COLLECTED, Folder.open(folder, ResolvedLabel, "collect"))
        path = job.path(job.propagate.labels)
        if not path.is_file():
            raise JobError(f"{path}: no such file", INPUT_MISSING)
        return cls(path, path.name)

    def digest(self) -> str:
        return sha256(self.path) if self.collected is None else self.collected.digest()

    def write(self, folder: Path) -> tuple[int, int]:
        """As GivenLabels.write; raises JobError (65) with the line where a label is wrong or contradicts another."""
        try:
            return GivenLabels(folder).write(self._batches())
        except Contradiction as e:
            raise JobError(f"{self.path}:{e.number}: {e}", BAD_DATA) from e

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.collected is None:
            yield from label_batches(self.path)
            return
        first = 1
        names = ["question_id", "sentence_id", "sentence", "label"]
        for part in self.collected.parts:
            for batch in read_batches(self.path, part, names, rows=1 << 15):
                number = pa.array(range(first, first + batch.num_rows), pa.int64())
                yield pa.RecordBatch.from_arrays([number, *(batch.column(name) for name in names)], schema=GIVEN)
                first += batch.num_rows
        if first == 1:
            raise JobError(f"{self.path}: no label in it; `answermill collect` again when there are annotations", BAD_DATA)
