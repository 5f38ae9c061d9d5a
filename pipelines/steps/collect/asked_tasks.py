"""Tasks that a run has asked: those of all its batches, each once; and the people to whom they were dealt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from answermill.files.atomic_files import WrongShape, read_json
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.annotate import ANNOTATE, PACK_PEOPLE, PACKS, TASKS
from answermill.schemas.annotation import Task

T = TypeVar("T")


@dataclass(frozen=True)
class AskedTasks:
    """The tasks of a run's batches. A later batch that chooses a task again says how it was chosen now: its
    stratum and probability hold, and its text."""

    batches: Sequence[Folder[Task]]
    """The tasks of each batch, the first batch first."""

    @classmethod
    def of(cls, run: Path) -> Self:
        """The tasks of a run. Raises JobError: 66 if it has none, 65 if a manifest is damaged."""
        return cls([TASKS.open(folder) for folder in ANNOTATE.places(run) or [run]])

    @property
    def path(self) -> Path:
        """The first batch's folder, for messages."""
        return self.batches[0].path

    @cached_property
    def rows(self) -> int:
        """Number of tasks."""
        if len(self.batches) == 1:
            return self.batches[0].rows
        return len(set().union(*map(_ids, self.batches)))

    def read(self) -> Iterator[Task]:
        """All tasks, batch by batch; one that a later batch has as well comes with that batch."""
        for tasks, later in self._with_later():
            yield from (task for task in tasks.read() if task.task_id not in later)

    def values(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Their values in these columns, of which `task_id` is the first, in the order of `read`."""
        for tasks, later in self._with_later():
            yield from (row for row in _values(tasks, columns) if row[0] not in later)

    def _with_later(self) -> Iterator[tuple[Folder[Task], set[str]]]:
        """Each batch, with the ids of those after it."""
        later = [set[str]() for _ in self.batches]
        for n in reversed(range(len(self.batches) - 1)):
            later[n] = later[n + 1] | _ids(self.batches[n + 1])
        return zip(self.batches, later, strict=True)

    def digests(self) -> dict[str, str]:
        """Folder of each batch's tasks, as its path in the run → 32 hex digits that stand for its content."""
        run = self.path.parent
        return {batch.path.relative_to(run).as_posix(): batch.digest() for batch in self.batches}


def dealt_tasks(run: Path) -> dict[str, set[str]]:
    """Person → ids of the tasks that the packs of all batches dealt to them; empty if they name nobody.
    Raises JobError (65) if a people.json is damaged."""
    dealt: dict[str, set[str]] = {}
    for place in ANNOTATE.places(run) or [run]:
        file = place / PACKS / PACK_PEOPLE
        if file.exists():
            for person, task_ids in read_of_run(file, dict[str, list[str]]).items():
                dealt.setdefault(person, set()).update(task_ids)
    return dealt


def read_of_run(file: Path, shape: type[T]) -> T:
    """Content of a file of the run. Raises JobError (65) if it is missing or of another shape."""
    try:
        return read_json(file, shape)
    except (OSError, WrongShape) as e:
        raise JobError(f"{file}: not readable ({e}); make it again", BAD_DATA) from e


def _ids(tasks: Folder[Task]) -> set[str]:
    return {task_id for (task_id,) in _values(tasks, ["task_id"])}


def _values(tasks: Folder[Task], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for part in tasks.parts:
        for batch in read_batches(tasks.path, part, columns, rows=8_192):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)
