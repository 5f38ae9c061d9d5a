"""A score or label for each of many candidates, with the file and line that each was read from."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.files.parquet_files import open_parquet
from answermill.files.store import fetch
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns, TableKind
from answermill.pipelines.data.inputs.parquet_batches import id_texts, refuse_twins
from answermill.pipelines.data.inputs.table_rows import (
    header_names,
    needed_cell,
    table_rows,
    without_blank_end,
)
from answermill.pipelines.data.inputs.tables import id_of
from answermill.pipelines.data.inputs.text_lines import bad, lines, tab_cells
from answermill.pipelines.errors import BAD_DATA, JobError

Value = tuple[int, str, str, float]
"""(line or row number, question id, candidate id, value)."""
SureValue = tuple[int, str, str, float, float | None]
"""The same with a confidence; None for a candidate that is no answer, since it was dropped."""


@dataclass(frozen=True, slots=True)
class CandidateValues:
    """A value per question id and candidate id, as arrays [n]."""

    question_id: pa.Array
    candidate_id: pa.Array
    value: npt.NDArray[np.float64]
    number: npt.NDArray[np.int64]
    """Place of the value in its file: the line from 1 in text, the row from 0 in Parquet."""
    files: tuple[tuple[Path, int], ...]
    """(file, number of values up to its end), in order."""
    confidence: npt.NDArray[np.float64] | None = None
    """The ranker's confidence in each, if `value` is only its place in an order; 0 for one that is no
    answer."""
    is_answer: npt.NDArray[np.bool_] | None = None
    """True for each that may be the answer, since it was not dropped; None if all may."""

    @classmethod
    def from_rows(cls, path: Path, rows: Iterable[Value | SureValue]) -> CandidateValues:
        """The values of one file, all with a confidence or all without."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        number, questions, candidates, values, *rest = columns
        ids = (pa.array(questions, pa.string()), pa.array(candidates, pa.string()))
        confidence = np.array([value or 0.0 for value in rest[0]], np.float64) if rest else None
        is_answer = np.array([value is not None for value in rest[0]], np.bool_) if rest else None
        files = ((path, len(number)),)
        return cls(
            *ids, np.array(values, np.float64), np.array(number, np.int64), files, confidence, is_answer
        )

    def __len__(self) -> int:
        return len(self.value)

    def where(self, n: int) -> str:
        """File and line, or file and row, of value n, for messages."""
        file = next(path for path, end in self.files if n < end)
        number = int(self.number[n])
        return f"{file}, row {number}" if file.name.endswith(".parquet") else f"{file}:{number}"


def number_of(path: Path, line: int, name: str, text: str | float) -> float:
    """The number that a cell holds. Raises JobError (65), with file and line, if it holds none."""
    try:
        return float(text)
    except (ValueError, TypeError, OverflowError):
        raise JobError(f"{path}:{line}: {name} {reprlib.repr(text)} is no number", BAD_DATA) from None


def read_text(
    path: Path, kind: TableKind, columns: Columns, split: Callable[[Path, int, str], tuple[str, str, str]]
) -> Iterator[Value]:
    """The values of a text file: a table whose header, or objects in JSON lines, name the fields of the kind,
    of which the value is the last; or lines without a header, of which `split` gives question, candidate and
    value. A CSV has a header.

    Raises JobError (65), with the line, if a field has no column, or a value is no number.
    """
    if path.name.lower().removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson", ".csv")):
        yield from _named_values(path, kind, columns)
        return

    *_, value = kind.fields
    filled = ((number, text) for number, text in lines(path) if text.strip())
    first = next(filled, None)
    if first is None:
        return

    names = _header(path, *first, kind, columns)
    if names is None:
        for number, text in chain([first], filled):
            question_id, candidate_id, cell = split(path, number, text)
            yield number, question_id, candidate_id, number_of(path, number, value, cell)
        return

    has_tabs = "\t" in first[1]
    rows = tab_cells(path, chain([first], filled)) if has_tabs else ((n, text.split()) for n, text in filled)
    column_of = columns.find(kind, names)
    for number, written in islice(rows, int(has_tabs), None):
        cells = without_blank_end(written, len(names))
        if len(cells) != len(names):
            raise bad(path, number, f"{len(cells)} cells where the header has {len(names)}")
        row = dict(zip(names, cells, strict=True))
        question_id, candidate_id, cell = (row[column_of[name]] for name in kind.fields)
        if not question_id.strip() or not candidate_id.strip():
            missing = "candidate" if question_id.strip() else "question"
            raise bad(path, number, f"no {missing} id: the cell is empty")
        yield number, question_id, candidate_id, number_of(path, number, value, cell)


def _named_values(path: Path, kind: TableKind, columns: Columns) -> Iterator[Value]:
    """The values of JSON lines, or of a CSV."""
    *ids, value = kind.fields
    for row in table_rows(path, kind, columns):
        question_id, candidate_id = (
            id_of(path, row.number, name, needed_cell(path, row, name, columns)) for name in ids
        )
        cell = needed_cell(path, row, value, columns)
        yield row.number, question_id, candidate_id, number_of(path, row.number, value, cell)


def _header(path: Path, number: int, text: str, kind: TableKind, columns: Columns) -> tuple[str, ...] | None:
    """The names of columns in a first line; None if it is a row, since it has a number or less than three
    cells. Raises JobError (65) if one of the kind's fields has no column."""
    cells = next(tab_cells(path, [(number, text)]))[1] if "\t" in text else text.split()
    if len(cells) < len(kind.fields) or any(map(_is_number, cells)):
        return None

    names = header_names(path, number, cells)
    columns.refuse_absent(path, number, kind, names)
    column_of = columns.find(kind, names)
    for name in kind.fields:
        if name not in column_of:
            raise columns.missing(path, number, name, names)
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_parquet(path: Path, kind: TableKind, columns: Columns = AS_NAMED) -> CandidateValues:
    """A Parquet file with a column for each field of the kind: the ids of question and candidate, and the
    value.

    Raises JobError (65) if a column is missing, a cell is null or of another type, or the file is not
    readable as Parquet.
    """
    try:
        with open_parquet(fetch(path)) as file:
            names = file.schema_arrow.names
            columns.refuse_absent(path, None, kind, names)
            column_of = columns.find(kind, names)
            for name in kind.fields:
                if name not in column_of:
                    raise columns.missing(path, None, name, names)
            chosen = [column_of[name] for name in kind.fields]
            refuse_twins(path, file.schema_arrow, chosen)
            table = file.read(columns=chosen).combine_chunks()
            table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise JobError(f"{path}: not readable as Parquet: {e}", BAD_DATA) from e

    for name in chosen:
        for n in np.flatnonzero(table.column(name).is_null().to_numpy())[:1]:
            raise JobError(f"{path}, row {n}: null where {', '.join(chosen)} are needed", BAD_DATA)

    *ids, value = (table.column(name).combine_chunks() for name in chosen)
    what = f"{' or '.join(chosen[:-1])} is no text and no whole number"
    try:
        question_id, candidate_id = map(id_texts, ids)
        what = f"{chosen[-1]} is no number"
        values = value.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise JobError(f"{path}: {what}: {e}", BAD_DATA) from e

    numbers = np.arange(len(table), dtype=np.int64)
    return CandidateValues(
        question_id, candidate_id, values.to_numpy(zero_copy_only=False), numbers, ((path, len(table)),)
    )
