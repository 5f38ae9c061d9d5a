"""Packs: tasks as the files that annotation tools import, in packs/TOOL/.

A pack shows a question, a sentence, its passage, and where it is from; never a task's stratum or expected
label. Tasks keep their order, the questions together. If some tasks need several annotators and others one,
each number of annotators has its own folder, since tools set that number for a whole project. Where people
are named, each person has a folder: no tool's free edition hands out tasks by name.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import product
from pathlib import Path
from typing import IO, Any

from answermill.files.atomic_files import WrongShape, read_json, sha256, sync, write_text
from answermill.files.sealed_json import write_sealed
from answermill.pipelines.data.annotation_tools import find_tool
from answermill.pipelines.data.annotation_tools.preview import SHOWN, preview
from answermill.pipelines.data.annotation_tools.tool import GUIDELINES, PREVIEW, Model, PackFormat
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.specs.annotate import ANNOTATE, PACK_PEOPLE, PACK_SUMMARY
from answermill.schemas.annotation import Task

MAX_BYTES = 100_000_000
"""Most bytes of a file: 100 MB, the limit of Label Studio."""


@dataclass(frozen=True, slots=True)
class PackOptions:
    """Options that all packs of a run share."""

    guidelines: str
    model: Model | None
    """The model of the scores; None if they are not to be shown."""
    tasks_per_file: int = 10_000
    bytes_per_file: int = MAX_BYTES


def default_guidelines() -> str:
    return (
        resources.files("answermill.pipelines.steps.annotate")
        .joinpath(GUIDELINES)
        .read_text(encoding="utf-8")
    )


def are_written(folder: Path, settings: Mapping[str, Any]) -> bool:
    """True if the packs exist. Raises JobError (73) if others do: people may have filled them in."""
    if not folder.exists():
        return False
    existing = read_summary(folder).settings
    for key in sorted({*settings, *existing}):
        former, new = existing.get(key), settings.get(key)
        if former != new:
            raise JobError(
                f"{folder} holds the packs of another job: {key} = {former!r} there, {new!r} here. "
                f"Move it away; it may hold answers. Or {ANNOTATE.adds}",
                OUTPUT_EXISTS,
            )
    return True


@dataclass(frozen=True, slots=True)
class PackSummary:
    """Content of packs.json: number of tasks, file → its tasks, the settings, and file → its SHA-256 when it
    was written."""

    tasks: int
    files: dict[str, int]
    settings: dict[str, Any]
    digests: dict[str, str] = field(default_factory=dict)
    people: dict[str, int] = field(default_factory=dict)
    """Person → their tasks; empty if nobody is named."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Readers of a pack: one person by name, or a number of annotators who all judge each task."""

    annotators: int
    person: str = ""

    @property
    def folder(self) -> str:
        return self.person or f"{self.annotators}-annotator{'s'[: self.annotators != 1]}"


def read_summary(folder: Path) -> PackSummary:
    """Content of packs.json. Raises JobError (73) if it is not what `write` wrote."""
    try:
        return read_json(folder / PACK_SUMMARY, PackSummary)
    except (OSError, WrongShape) as e:
        raise JobError(
            f"{folder / PACK_SUMMARY}: not readable ({e}); move {folder} away", OUTPUT_EXISTS
        ) from e


def write(
    folder: Path,
    tasks: Iterable[Task],
    tools: Iterable[str],
    options: PackOptions,
    settings: Mapping[str, Any],
    *,
    dealt: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Write all packs, or nothing; return the number of tasks. Memory does not grow with the tasks, but for
    their ids where people are named.

    `settings`: all that decides the content of the packs; `are_written` compares them. `dealt`: task id → the
    people who judge it; None if nobody is named, and then each tool's pack has all tasks.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    packs: dict[tuple[str, Audience], Pack] = {}
    names, task_count, to_judge = list(tools), 0, 0
    tasks_of: dict[str, list[str]] = {}

    for task in tasks:
        audiences = [Audience(task.annotators)]
        if dealt is not None:
            audiences = [Audience(1, person) for person in dealt[task.task_id]]
            for person in dealt[task.task_id]:
                tasks_of.setdefault(person, []).append(task.task_id)
        task_count += 1
        to_judge += len(audiences)
        for name, audience in product(names, audiences):
            if (name, audience) not in packs:
                pack_folder = temporary / name / audience.folder
                packs[name, audience] = Pack(pack_folder, find_tool(name).pack, options, audience)
            packs[name, audience].write(task)

    is_divided = dealt is not None or len({audience for _, audience in packs}) > 1
    files: dict[str, int] = {}
    for (name, audience), pack in packs.items():
        tasks_of_file = pack.finish()
        if not is_divided:
            for path in list(pack.folder.iterdir()):
                path.rename(temporary / name / path.name)
            pack.folder.rmdir()
        prefix = f"{name}/{audience.folder}" if is_divided else name
        files |= {f"{prefix}/{file}": count for file, count in tasks_of_file.items()}

    for name in names:
        packed = sum(count for file, count in files.items() if file.startswith(f"{name}/"))
        if packed != to_judge:
            raise RuntimeError(f"{to_judge} tasks came in, {packed} are in the packs for {name}")
        write_text(temporary / name / GUIDELINES, options.guidelines)
    if dealt is not None:
        write_text(temporary / PACK_PEOPLE, json.dumps(tasks_of, indent=1, sort_keys=True) + "\n")

    paths = sorted(path for path in temporary.rglob("*") if path.is_file())
    digests = {path.relative_to(temporary).as_posix(): sha256(path) for path in paths}
    summary = {
        "tasks": task_count,
        "files": dict(sorted(files.items())),
        "settings": dict(settings),
        "digests": digests,
        "people": {person: len(tasks_of[person]) for person in sorted(tasks_of)},
    }
    write_sealed(temporary / PACK_SUMMARY, summary)

    temporary.rename(folder)
    return task_count


class Pack:
    """The files of one tool for an audience, of bounded size, written task by task."""

    def __init__(self, folder: Path, form: PackFormat, options: PackOptions, audience: Audience) -> None:
        self.folder, self._form, self._options, self._audience = folder, form, options, audience
        self._file: IO[str] | None = None
        self._rows, self._bytes = 0, 0
        self._tasks_of_file: dict[str, int] = {}
        self._first: list[Task] = []
        folder.mkdir(parents=True)

    def write(self, task: Task) -> None:
        """Append a task; one larger than `bytes_per_file` gets a file for itself."""
        if len(self._first) < SHOWN:
            self._first.append(task)
        item = self._item(task)
        size = len(item.encode()) + len(self._form.between.encode())
        is_full = self._bytes + size + len(self._form.after.encode()) > self._options.bytes_per_file
        if self._file is not None and (is_full or self._rows == self._options.tasks_per_file):
            self._close()

        if self._file is None:
            self._path = self.folder / self._form.file_name(len(self._tasks_of_file) + 1)
            self._file = self._path.open("w", encoding="utf-8", newline="")
            self._file.write(self._form.before)
            self._rows, self._bytes = 0, len(self._form.before.encode())

        self._file.write((self._form.between if self._rows else "") + item)
        self._rows += 1
        self._bytes += size

    def _item(self, task: Task) -> str:
        if self._audience.person and self._form.personal_item is not None:
            return self._form.personal_item(task, self._options.model, self._audience.person)
        return self._form.item(task, self._options.model)

    def finish(self) -> dict[str, int]:
        """Close the last file, write the preview and the tool's other files; return file → tasks in it."""
        self._close()
        guidelines, model = self._options.guidelines, self._options.model
        write_text(self.folder / PREVIEW, preview(guidelines, self._first, model))
        for path, text in self._other_files().items():
            write_text(self.folder / path, text)
        return self._tasks_of_file

    def _other_files(self) -> Mapping[str, str]:
        if self._audience.person and self._form.personal_files is not None:
            return self._form.personal_files(self._options.guidelines, self._audience.person)
        return self._form.other_files(self._options.guidelines, self._audience.annotators)

    def _close(self) -> None:
        if self._file is not None:
            self._file.write(self._form.after)
            self._file.close()
            self._file = None
            sync(self._path)
            self._tasks_of_file[self._path.name] = self._rows
