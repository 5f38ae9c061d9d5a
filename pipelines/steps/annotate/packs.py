"""Packs: tasks as the files that annotation tools import, in packs/TOOL/.

A pack shows a question, a sentence, its passage, and where it is from; never a task's stratum or expected
label. Tasks keep their order, the questions together. If some tasks need several annotators and others one,
each number of annotators has its own folder, since tools set that number for a whole project.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Any

from answermill.files.atomic_files import WrongShape, read_json, sha256, sync, write_text
from answermill.files.sealed_json import write_sealed
from answermill.pipelines.data.annotation_tools import find_tool
from answermill.pipelines.data.annotation_tools.tool import Model, PackFormat
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.specs.annotate import ANNOTATE, PACK_SUMMARY
from answermill.schemas.annotation import Task

GUIDELINES = "guidelines.md"
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
) -> int:
    """Write all packs, or nothing; return the number of tasks in each. Memory does not grow with the tasks.

    `settings`: all that decides the content of the packs; `are_written` compares them.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    packs: dict[tuple[str, int], Pack] = {}
    names, task_count = list(tools), 0

    for task in tasks:
        task_count += 1
        for name in names:
            if (name, task.annotators) not in packs:
                tool = find_tool(name)
                pack_folder = temporary / tool.name / _subfolder(task.annotators)
                packs[name, task.annotators] = Pack(pack_folder, tool.pack, options)
            packs[name, task.annotators].write(task)

    is_divided = len({annotators for _, annotators in packs}) > 1
    files: dict[str, int] = {}
    for (name, annotators), pack in packs.items():
        tasks_of_file = pack.finish(annotators)
        if not is_divided:
            for path in list(pack.folder.iterdir()):
                path.rename(temporary / name / path.name)
            pack.folder.rmdir()
        prefix = f"{name}/{_subfolder(annotators)}" if is_divided else name
        files |= {f"{prefix}/{file}": count for file, count in tasks_of_file.items()}

    for name in names:
        if (
            packed := sum(count for file, count in files.items() if file.startswith(f"{name}/"))
        ) != task_count:
            raise RuntimeError(f"{task_count} tasks came in, {packed} are in the pack for {name}")
        write_text(temporary / name / GUIDELINES, options.guidelines)

    paths = sorted(path for path in temporary.rglob("*") if path.is_file())
    digests = {path.relative_to(temporary).as_posix(): sha256(path) for path in paths}
    summary = {
        "tasks": task_count,
        "files": dict(sorted(files.items())),
        "settings": dict(settings),
        "digests": digests,
    }
    write_sealed(temporary / PACK_SUMMARY, summary)

    temporary.rename(folder)
    return task_count


def _subfolder(annotators: int) -> str:
    return f"{annotators}-annotator{'s'[: annotators != 1]}"


class Pack:
    """The files of one tool, of bounded size, written task by task."""

    def __init__(self, folder: Path, form: PackFormat, options: PackOptions) -> None:
        self.folder, self._form, self._options = folder, form, options
        self._file: IO[str] | None = None
        self._rows, self._bytes = 0, 0
        self._tasks_of_file: dict[str, int] = {}
        folder.mkdir(parents=True)

    def write(self, task: Task) -> None:
        """Append a task; one larger than `bytes_per_file` gets a file for itself."""
        item = self._form.item(task, self._options.model)
        size = len(item.encode()) + len(self._form.between.encode())
        is_full = self._bytes + size + len(self._form.after.encode()) > self._options.bytes_per_file
        if self._file is not None and (is_full or self._rows == self._options.tasks_per_file):
            self._close()

        if self._file is None:
            self._path = (
                self.folder / f"{self._form.stem}-{len(self._tasks_of_file) + 1:05d}{self._form.suffix}"
            )
            self._file = self._path.open("w", encoding="utf-8", newline="")
            self._file.write(self._form.before)
            self._rows, self._bytes = 0, len(self._form.before.encode())

        self._file.write((self._form.between if self._rows else "") + item)
        self._rows += 1
        self._bytes += size

    def finish(self, annotators: int) -> dict[str, int]:
        """Close the last file and write the tool's other files; return file → tasks in it."""
        self._close()
        for path, text in self._form.other_files(self._options.guidelines, annotators).items():
            write_text(self.folder / path, text)
        return self._tasks_of_file

    def _close(self) -> None:
        if self._file is not None:
            self._file.write(self._form.after)
            self._file.close()
            self._file = None
            sync(self._path)
            self._tasks_of_file[self._path.name] = self._rows
