"""An annotation tool as the pipeline knows it: the files of tasks that it imports, and the exports that it
writes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from answermill.schemas.annotation import Task

QUESTION = "answer"
"""Name of the question to people, in tools that name it."""
LABELS = ("correct", "wrong", "cannot tell")
GUIDELINES, PREVIEW = "guidelines.md", "preview.html"
"""Names of a pack's files beside its tasks."""
WORDING = "Does the sentence answer the question: correct, sufficient and direct?"

FileKind = Literal["list", "lines", "csv"]
"""A JSON list, JSON lines, or CSV."""
ExportRow: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """The plan that scored the sentences."""

    name: str
    unbounded: bool
    """True if some of its scores are below 0 or above 1, which tools do not accept as a score."""

    def score(self, task: Task) -> float:
        """A score from 0 to 1: the task's own, or 1 / (1 + e^-score) of all tasks if some scores are outside;
        same order."""
        if not self.unbounded:
            return task.score
        small = math.exp(-abs(task.score))
        return round((1 if task.score >= 0 else small) / (1 + small), 6)

    def prediction(self, task: Task) -> tuple[str, float]:
        """The label that the model takes for likelier, and its confidence in it, 0.5 to 1: 'correct' from a
        score of 0.5 on, below it 'wrong'."""
        score = self.score(task)
        return (LABELS[0], score) if score >= 0.5 else (LABELS[1], round(1 - score, 6))


@dataclass(frozen=True, slots=True)
class PackFormat:
    """A tool's files of tasks: `before`, then the items with `between` between them, then `after`."""

    stem: str
    suffix: str
    before: str
    between: str
    after: str
    item: Callable[[Task, Model | None], str]
    """(task, the model whose score is shown, or None to show no score) → the task as the tool reads it."""
    other_files: Callable[[str, int], Mapping[str, str]] = lambda guidelines, annotators: {}
    """(guidelines, annotators of each task) → further files of the pack: path → text."""
    personal_item: Callable[[Task, Model | None, str], str] | None = None
    """`item` with the name of the person whose pack it is in; None if the tool itself says who has judged."""
    personal_files: Callable[[str, str], Mapping[str, str]] | None = None
    """(guidelines, person) → `other_files` of the pack of one person; None if they are those of anybody's."""

    def file_name(self, number: int) -> str:
        """Name of a pack's file of tasks. `number`: from 1."""
        return f"{self.stem}-{number:05d}{self.suffix}"

    def is_taken(self, name: str) -> bool:
        """True if a pack may have a file of tasks, its guidelines or its preview under this name."""
        number = name.removeprefix(f"{self.stem}-").removesuffix(self.suffix)
        is_tasks = number.isdecimal() and name == self.file_name(int(number))
        return is_tasks or name in (GUIDELINES, PREVIEW)


@dataclass(frozen=True, slots=True)
class ExportedLabel:
    """A person's judgement of a task, as a tool exports it: a label, or the reason why there is none."""

    record: int
    """The record's number in a JSON list, or its line; from 1."""
    task_id: str
    text_hash: str
    """'' if the export does not carry it."""
    annotator: str | None
    """'' if the export names none: `Export.read` fills in the file's name. None if the tool knows its users,
    but not this one: they were deleted."""
    label: int | None
    reason: str
    """'' with a label, else cancelled, skipped or not_a_label."""
    detail: str
    changed_at: float | None
    """Seconds since 1970 of the last change; None if the tool does not say."""
    submitted: bool = True
    """True if the export marks it as submitted, in a tool that exports drafts as well."""
    annotation_id: str = ""
    """The tool's own id of the annotation, which no other of its server has; '' if it has none."""
    created_at: float | None = None
    """Seconds since 1970; None if the tool does not say."""


@dataclass(frozen=True, slots=True)
class ExportForm:
    """A form in which a tool exports people's judgements."""

    name: str
    recognise: Callable[[ExportRow, FileKind], bool]
    """(first record, kind of its file) → True if the file has this form."""
    read: Callable[[int, ExportRow], Sequence[ExportedLabel]]
    """(number, record) → its labels. Raises Malformed."""


class Malformed(ValueError):
    """A record that its tool cannot have written."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An annotation tool; `answermill.pipelines.data.annotation_tools.TOOLS` has one line for each."""

    name: str
    pack: PackFormat
    exports: tuple[ExportForm, ...]


def marked(task: Task) -> str:
    """The passage as plain text, with the sentence between ⟦ and ⟧."""
    return f"{task.passage[: task.start]}⟦{task.passage[task.start : task.end]}⟧{task.passage[task.end :]}"


def marked_html(task: Task) -> str:
    """Title, address and passage as HTML, the sentence marked; all of the page's own text is escaped."""
    parts = (task.passage[: task.start], task.passage[task.start : task.end], task.passage[task.end :])
    before, sentence, after = (html.escape(part).replace("\n", "<br>") for part in parts)
    address = html.escape(task.url)
    if task.url.startswith(("http://", "https://")):
        address = f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a>'
    return f"<p><b>{html.escape(task.title)}</b> {address}</p><p>{before}<mark>{sentence}</mark>{after}</p>"
