"""Tables of question, sentence and label as CSV and JSONL, whose columns a header or the keys name, as other
tools do or as `--columns` says; else as the same table with tabs (`tabular.TSV`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from answermill.pipelines.data.formats.format import FileHead, Format, TableOptions
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.formats.tabular import UNNAMED, NamedCells, names_of, parse_rows
from answermill.pipelines.data.inputs.columns import CANDIDATES, Columns
from answermill.pipelines.data.inputs.table_rows import TableRow, needed_cell, table_rows
from answermill.pipelines.data.inputs.tables import BINARY, id_of
from answermill.pipelines.data.inputs.text_lines import bad, csv_header
from answermill.pipelines.errors import BAD_DATA, JobError

_CSV, _JSON = (".csv",), (".jsonl", ".ndjson", ".json")
_OTHERS = ("doc_id", "title", "candidate_id")


def _read(form: str) -> Callable[[Path, Counter[str], TableOptions], Iterator[Row]]:
    def read(path: Path, counted: Counter[str], options: TableOptions) -> Iterator[Row]:
        """Labels 0 and 1 (true and false in JSON); question, sentence and label are needed."""
        rows = table_rows(path, CANDIDATES, options.columns)
        first = next(rows, None)
        if first is None:
            raise JobError(f"{path}: no candidate in it", BAD_DATA)

        names = _names(path, first, options.columns)
        cells = ((row.number, _cells(path, row, names, options.columns)) for row in _from(first, rows))
        return parse_rows(path, cells, NamedCells(form, names, BINARY))

    return read


def _from(first: TableRow, rows: Iterator[TableRow]) -> Iterator[TableRow]:
    yield first
    yield from rows


def _names(path: Path, first: TableRow, columns: Columns) -> Sequence[str]:
    """Fields of the table's rows, by its first one. Raises JobError (65) if one that is needed has no column,
    or a table without question ids has a column that is not known: they may be in it."""
    for name in UNNAMED:
        if name not in first.cells:
            raise columns.missing(path, first.number, name, first.names)
    if "question_id" not in first.cells:
        known = set(columns.find(CANDIDATES, first.names).values())
        if unknown := [name for name in first.names if name and name not in known]:  # pandas' index has none
            missing = columns.missing(path, first.number, "question_id", first.names)
            raise JobError(f"{missing}; else leave {', '.join(unknown)} out", BAD_DATA)
        return UNNAMED + tuple(name for name in _OTHERS if name in first.cells)
    return ("question_id", *UNNAMED, *(name for name in _OTHERS if name in first.cells))


def _cells(path: Path, row: TableRow, names: Sequence[str], columns: Columns) -> Sequence[str]:
    """The cells of a row as text. Raises JobError (65) if one that is needed is missing, or is no text."""
    cells = []
    for name in names:
        if name in _OTHERS[:2]:
            value = row.cells.get(name) or ""
        elif name == "text" and row.cells.get(name, "") is None:
            value = ""  # an empty candidate, as in WikiQA
        else:
            value = needed_cell(path, row, name, columns)
        cells.append(_text(path, row.number, name, value))
    return cells


def _text(path: Path, line: int, name: str, value: Any) -> str:
    if name == "label" and isinstance(value, int | float) and value in (0, 1):
        return str(int(value))
    if isinstance(value, str):
        return value
    if name in ("question_id", "doc_id", "candidate_id"):
        return id_of(path, line, name, value)
    if name in ("question", "text", "title") or isinstance(value, bool | float | list | dict):
        raise bad(path, line, f"{name} is {str(value)[:60]!r}; give text")
    return str(value)


def _is_csv(head: FileHead) -> bool:
    if not head.path.name.lower().removesuffix(".gz").endswith(_CSV) or not head.lines:
        return False
    # Excel's 'sep=;' is no header.
    return any(names_of(csv_header(line), head.columns) is not None for line in head.lines[:2])


def _is_jsonl(head: FileHead) -> bool:
    name = head.path.name.lower().removesuffix(".gz")
    return name.endswith(_JSON) and names_of(list(head.first_object), head.columns) is not None


CSV = Format(
    "csv",
    "CSV with a header that names question, sentence and label, and maybe question ids, documents and titles",
    _read("csv"),
    TableOptions,
    _is_csv,
)
JSONL = Format(
    "jsonl",
    "JSON lines with the same names as keys, an object a candidate",
    _read("jsonl"),
    TableOptions,
    _is_jsonl,
)
