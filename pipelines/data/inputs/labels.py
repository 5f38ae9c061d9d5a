"""The labels that a job propagates, in batches: from a file of the user's, or from the output of `answermill
collect`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from answermill.files.atomic_files import recover_folder
from answermill.indexing.labels.given_labels import GIVEN_LABEL, Contradiction, GivenLabels, may_contradict
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError, check_file
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.collect import COLLECTED, LABELS
from answermill.schemas.annotation import ResolvedLabel


def collected_labels(run: Path) -> Path:
    """The folder of the labels that `collect` wrote, restored first if a later `collect` was killed."""
    recover_folder(run / COLLECTED)
    return LABELS.path(run)


@dataclass(frozen=True)
class LabelSource:
    """The source of a job's labels."""

    path: Path
    name: str
    """Name in rejects and errors."""
    collected: Folder[ResolvedLabel] | None = None
    """Folder that `collect` wrote; None if `path` is a file of the user's."""
    columns: Columns = AS_NAMED
    """The user's names of the file's columns."""

    @classmethod
    def of(cls, job: Job, run: Path) -> LabelSource:
        """The source that the job names. Raises JobError if the labels are missing (66), or the job has no
        [propagate] (78)."""
        if job.propagate is None:
            raise JobError(
                "the job has no [propagate] section; add one, with `labels` or, after `collect`, empty",
                SETTINGS,
            )
        if job.propagate.labels is None:
            folder = collected_labels(run)
            return cls(folder, LABELS.name, Folder.open(folder, LABELS))
        path = job.path(job.propagate.labels)
        check_file(path, "propagate.labels:")
        columns = Columns.of(job.propagate.columns, "propagate.columns")
        return cls(path, path.name, columns=columns)

    def digest(self) -> str:
        return self.columns.digest(self.path) if self.collected is None else self.collected.digest()

    def may_contradict(self) -> bool:
        """False if no two labels contradict each other, which `write` would refuse; stores nothing.

        Raises JobError (65) with the line of a label that is wrong in itself.
        """
        return may_contradict(self._batches())

    def write(self, folder: Path) -> tuple[int, int]:
        """Write the labels as GivenLabels.write does. Raises JobError (65) with the line of a label that is
        wrong or contradicts another."""
        try:
            return GivenLabels(folder).write(self._batches())
        except Contradiction as e:
            raise JobError(f"{self.path}:{e.number}: {e}", BAD_DATA) from e

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of GIVEN_LABEL; the labels that `collect` wrote are numbered from 1."""
        if self.collected is None:
            yield from label_batches(self.path, self.columns)
            return

        first = 1
        names = ["question_id", "sentence_id", "sentence", "label"]
        for part in self.collected.parts:
            for batch in read_batches(self.path, part, names, rows=1 << 15):
                number = pa.array(range(first, first + batch.num_rows), pa.int64())
                yield pa.RecordBatch.from_arrays(
                    [number, *(batch.column(name) for name in names)], schema=GIVEN_LABEL
                )
                first += batch.num_rows

        if first == 1:
            raise JobError(
                f"{self.path}: no label in it; run `answermill collect` again when people have annotated",
                BAD_DATA,
            )
