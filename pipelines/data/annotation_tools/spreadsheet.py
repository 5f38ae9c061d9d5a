"""CSV for spreadsheets: people fill in `label` and `annotator`; a copy of the file for each of them. In a
person's own pack `annotator` is filled in.

UTF-8 with a byte order mark, without which Excel assumes another encoding. Cells that a spreadsheet would run
as a formula, or round as a number (an id of digits), have a ' before them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from answermill.pipelines.data.annotation_tools.export_values import read_table_row
from answermill.pipelines.data.annotation_tools.tool import ExportForm, Model, PackFormat, Tool, marked
from answermill.schemas.annotation import Task

COLUMNS = (
    "task_id",
    "text_hash",
    "question",
    "sentence",
    "passage",
    "title",
    "url",
    "score",
    "label",
    "annotator",
)
_UNSAFE = re.compile(r"[=+\-@\t\r]|\d+(?:[eE]\d+)?$")


def item(task: Task, model: Model | None, person: str = "") -> str:
    score = "" if model is None else f"{task.score:.6g}"
    cells = (task.task_id, task.text_hash, task.question, task.sentence, marked(task), task.title, task.url)
    return _line([*map(quote, (*cells, score)), "", quote(person)])


def quote(cell: str) -> str:
    """The cell, with a ' before it if a spreadsheet would take it for a formula or a number."""
    return "'" + cell if _UNSAFE.match(cell) else cell


def unquote(cell: str) -> str:
    """The inverse of `quote`."""
    return cell[1:] if cell.startswith("'") and _UNSAFE.match(cell[1:]) else cell


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


HEADER = "\ufeff" + ",".join(COLUMNS) + "\r\n"
TOOL = Tool(
    name="csv",
    pack=PackFormat("tasks", ".csv", HEADER, "", "", item, personal_item=item),
    exports=(ExportForm("csv", lambda row, kind: kind == "csv", read_table_row),),
)
