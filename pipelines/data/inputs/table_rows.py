"""Rows of the tables that people and other tools write, as TSV, CSV, JSONL or Parquet, plain or gzip, with
a cell for each field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa

from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns, TableKind
from answermill.pipelines.data.inputs.parquet_batches import parquet_rows
from answermill.pipelines.data.inputs.text_lines import bad, csv_lines, json_lines, tab_lines
from answermill.pipelines.errors import BAD_DATA, JobError, check_file


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table."""

    number: int
    """Line, or row of Parquet, from 1."""
    cells: Mapping[str, Any]
    """Field → cell, None if it is empty, of the fields that the table has a column for."""
    names: Sequence[str]
    """Columns of the file."""


def table_rows(path: Path, kind: TableKind, columns: Columns = AS_NAMED) -> Iterator[TableRow]:
    """The rows of a file in any of the formats. Raises JobError: 66 if the file is missing; 65, with the
    line, where it cannot be read, or lacks a column that the user has named."""
    check_file(path)

    ending = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if ending == "parquet":
        yield from _parquet_rows(path, kind, columns)
    elif ending in ("jsonl", "json", "ndjson"):
        columns.refuse_others(kind)
        known: dict[tuple[str, ...], dict[str, str]] = {}  # keys of an object → field → key
        for line, row in json_lines(path):
            names = tuple(row)
            if names not in known:
                known[names] = columns.find(kind, names)
            yield TableRow(line, _cells(row, known[names]), names)
    elif ending in ("tsv", "txt"):
        yield from _rows_of_cells(path, kind, columns, tab_lines(path), "tabs")
    elif ending == "csv":
        yield from _rows_of_cells(path, kind, columns, csv_lines(path), "commas")
    else:
        raise JobError(
            f"{path}: ends in .{ending}; .tsv, .csv, .jsonl and .parquet can be read, each plain or with .gz",
            BAD_DATA,
        )


def _cells(row: Mapping[str, Any], column_of: Mapping[str, str]) -> dict[str, Any]:
    """The cells of the fields, in a row whose cells are by column."""
    return {name: None if row[column] == "" else row[column] for name, column in column_of.items()}


def _parquet_rows(path: Path, kind: TableKind, columns: Columns) -> Iterator[TableRow]:
    names: list[str] = []
    column_of: dict[str, str] = {}

    def choose(schema: pa.Schema) -> list[str]:
        names.extend(schema.names)
        columns.refuse_absent(path, None, kind, names)
        column_of.update(columns.find(kind, names))
        return list(column_of.values())

    for number, row in parquet_rows(path, choose):
        yield TableRow(number, _cells(row, column_of), names)


def _rows_of_cells(
    path: Path, kind: TableKind, columns: Columns, lines: Iterable[tuple[int, Sequence[str]]], between: str
) -> Iterator[TableRow]:
    """The rows of a table's lines. `between`: what is between its cells, 'tabs' or 'commas'."""
    names: tuple[str, ...] = ()
    column_of: dict[str, str] = {}
    unnamed: tuple[int, Sequence[str]] | None = None  # the first row of a table without a header line
    for line, written in lines:
        if not names:
            if columns.is_header(kind, [cell.strip() for cell in written]):
                names = header_names(path, line, written)
                columns.refuse_absent(path, line, kind, names)
                column_of = columns.find(kind, names)
                continue

            names, column_of = kind.header, dict(zip(kind.header, kind.header, strict=True))
            unnamed = line, written
            if len(without_blank_end(written, len(names))) != len(names):
                if len(written) == 1 and "text" in kind.fields:
                    advice = "for a text a line write `text` as the first line"
                    raise bad(path, line, f"no header line; {advice}, or {_example(kind, between)}")
                shown = [shorten(cell, 40, placeholder="…") for cell in written]
                name = next(iter(kind.fields))
                raise columns.missing(path, line, name, shown, f"no header line; {_example(kind, between)}")

        elif unnamed is not None:
            _refuse_header(path, *unnamed, written, columns)
            unnamed = None

        cells = without_blank_end(written, len(names))
        if len(cells) != len(names):
            advice = "; a cell with a comma must be in quotes" if between == "commas" else ""
            if between == "tabs" and '"' in "".join(cells):
                advice = "; a cell may hold neither a tab nor a line end: write CSV or JSONL"
            raise bad(path, line, f"{len(cells)} cells where the header has {len(names)}{advice}")

        row = dict(zip(names, cells, strict=True))
        yield TableRow(line, _cells(row, column_of), names)


def header_names(path: Path, line: int, cells: Sequence[str]) -> tuple[str, ...]:
    """The names in a header line, without the empty ones that spreadsheets leave at its end; pandas' index
    has an empty one at the start. Raises JobError (65) if a name comes twice."""
    names = [cell.strip() for cell in cells]
    while names and not names[-1]:
        names.pop()
    for name in names:
        if name and names.count(name) > 1:
            raise bad(path, line, f"the column {name!r} comes twice in the header: {', '.join(names)}")
    return tuple(names)


def without_blank_end(cells: Sequence[str], width: int) -> Sequence[str]:
    """The cells of a row, without empty ones beyond `width` of them."""
    if len(cells) <= width or any(cell.strip() for cell in cells[width:]):
        return cells
    return cells[:width]


def _refuse_header(
    path: Path, line: int, first: Sequence[str], second: Sequence[str], columns: Columns
) -> None:
    """Raise JobError (65) if the first row of a table that has none of our names seems to be a header with
    others: its first cell has no digit, unlike that of the second row."""
    if not re.search(r"\d", first[0]) and re.search(r"\d", second[0]):
        seems = "a header line with unknown columns, it seems"
        missing = columns.missing(path, line, "question_id", first, seems)
        raise JobError(f"{missing}; if it is a row, write a header line before it", BAD_DATA)


def _example(kind: TableKind, between: str) -> str:
    """Words about the header that a table of the kind may have."""
    if kind.header:
        return f"without one it must have the columns {', '.join(kind.header)}, between {between}"
    names = ", ".join(names[0] for names in kind.fields.values())
    return f"write one first, such as {names} between {between}"


def needed_cell(path: Path, row: TableRow, name: str, columns: Columns) -> Any:
    """The cell of a field that a row must have. Raises JobError (65) if the table has no column for it, or
    the cell is empty."""
    if name not in row.cells:
        raise columns.missing(path, row.number, name, row.names)
    if row.cells[name] is None:
        raise bad(path, row.number, f"no {name}: the cell is empty")
    return row.cells[name]
