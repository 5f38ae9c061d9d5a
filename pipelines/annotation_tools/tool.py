"""What a pack for any tool is made of: its items, one text for each task, in files of bounded size."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from schemas.annotation import Task
from schemas.atomic_files import sync, write_text

QUESTION = "answer"
"""Name of what people are asked, in tools that name it."""
LABELS = ("correct", "wrong", "cannot tell")
ASKED = "Does the sentence answer the question: correct, sufficient and direct?"
MAX_BYTES = 100_000_000
"""Of a file: 100 MB, what Label Studio takes at the most."""


@dataclass(frozen=True, slots=True)
class Model:
    """The plan that scored the sentences."""

    name: str
    unbounded: bool
    """Whether some of its scores are below 0 or above 1, which tools take for no score."""

    def score(self, task: Task) -> float:
        """Within 0 and 1: the task's score, or where some are not within, 1 / (1 + e^-score) of all, in the same order."""
        if not self.unbounded:
            return task.score
        small = math.exp(-abs(task.score))
        return round((1 if task.score >= 0 else small) / (1 + small), 6)


@dataclass(frozen=True, slots=True)
class Setup:
    """What all packs of a run have in common."""

    guidelines: str
    model: Model | None
    """None where its scores are not to be shown."""
    tasks_per_file: int = 10_000
    bytes_per_file: int = MAX_BYTES


class Tool(Protocol):
    """A tool's file format: `before`, items with `between` between them, `after`."""

    name: str
    stem: str
    suffix: str
    before: str
    between: str
    after: str

    def item(self, task: Task, model: Model | None) -> str:
        """The task as the tool reads it; `model` as in Setup."""
        ...

    def beside(self, setup: Setup, annotators: int) -> Mapping[str, str]:
        """Other files of the pack: path → text."""
        ...


class Pack:
    """The files of one tool, written as tasks come."""

    def __init__(self, folder: Path, tool: Tool, setup: Setup) -> None:
        self.folder, self._tool, self._setup = folder, tool, setup
        self._file: IO[str] | None = None
        self._rows, self._bytes = 0, 0
        self._made: dict[str, int] = {}
        folder.mkdir(parents=True)

    def write(self, task: Task) -> None:
        """Raises nothing on an item larger than a file may be: it has a file of its own."""
        item = self._tool.item(task, self._setup.model)
        size = len(item.encode()) + len(self._tool.between.encode())
        full = self._bytes + size + len(self._tool.after.encode()) > self._setup.bytes_per_file
        if self._file is not None and (full or self._rows == self._setup.tasks_per_file):
            self._close()
        if self._file is None:
            self._path = self.folder / f"{self._tool.stem}-{len(self._made) + 1:05d}{self._tool.suffix}"
            self._file = self._path.open("w", encoding="utf-8", newline="")
            self._file.write(self._tool.before)
            self._rows, self._bytes = 0, len(self._tool.before.encode())
        self._file.write((self._tool.between if self._rows else "") + item)
        self._rows += 1
        self._bytes += size

    def finish(self, annotators: int) -> dict[str, int]:
        """File → tasks in it, when all are written, and what stands beside them too."""
        self._close()
        for path, text in self._tool.beside(self._setup, annotators).items():
            write_text(self.folder / path, text)
        return self._made

    def _close(self) -> None:
        if self._file is not None:
            self._file.write(self._tool.after)
            self._file.close()
            self._file = None
            sync(self._path)
            self._made[self._path.name] = self._rows


def marked(task: Task) -> str:
    """The passage, as plain text, with the sentence between ⟦ and ⟧."""
    return f"{task.passage[: task.start]}⟦{task.passage[task.start : task.end]}⟧{task.passage[task.end :]}"


def marked_html(task: Task) -> str:
    """Title, address and passage as HTML, the sentence marked; all of the page's own text is escaped."""
    parts = (task.passage[: task.start], task.passage[task.start : task.end], task.passage[task.end :])
    before, sentence, after = (html.escape(part).replace("\n", "<br>") for part in parts)
    address = html.escape(task.url)
    if task.url.startswith(("http://", "https://")):
        address = f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a>'
    return f"<p><b>{html.escape(task.title)}</b> {address}</p><p>{before}<mark>{sentence}</mark>{after}</p>"
