"""An annotation tool: a list with boxes to tick, and back JSON lines with `task`, `by` and `ticked`."""

from __future__ import annotations

from collections.abc import Sequence

from answermill.pipelines.data.annotation_tools.tool import (
    ExportedLabel,
    ExportForm,
    ExportRow,
    FileKind,
    Malformed,
    Model,
    PackFormat,
    Tool,
)
from answermill.schemas.annotation import Task


def item(task: Task, model: Model | None) -> str:
    """A task as a line of the list."""
    return f"- [ ] {task.question} **{task.sentence}** ({task.task_id})"


def is_export(row: ExportRow, kind: FileKind) -> bool:
    """True if a first record has a box."""
    return kind == "lines" and "ticked" in row


def read(record: int, row: ExportRow) -> Sequence[ExportedLabel]:
    """The label of a record: a ticked box is a right answer."""
    if not isinstance(row["ticked"], bool):
        raise Malformed(f"ticked is {row['ticked']!r}, and neither true nor false")
    label = int(row["ticked"])
    return [ExportedLabel(record, str(row["task"]), "", str(row.get("by", "")), label, "", "", None)]


TOOL = Tool(
    name="markdown",
    pack=PackFormat("tasks", ".md", "", "\n", "\n", item),
    exports=(ExportForm("markdown", is_export, read),),
)
