"""Labels of sentences that people provide, as TSV, CSV, JSONL or Parquet, in Arrow batches: there may be a
hundred million."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.labels.given_labels import GIVEN_LABEL
from answermill.indexing.passages.text import not_plain
from answermill.pipelines.data.inputs.columns import AS_NAMED, SENTENCE_LABELS, Columns
from answermill.pipelines.data.inputs.parquet_batches import id_texts, is_text, parquet_batches
from answermill.pipelines.data.inputs.table_rows import TableRow, table_rows
from answermill.pipelines.data.inputs.tables import BINARY, LONGEST, id_of, text_of
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, JobError

_ROWS = 1 << 15  # in memory at a time


def label_batches(path: Path, columns: Columns = AS_NAMED) -> Iterator[pa.RecordBatch]:
    """The sentence labels of a file, in batches of GIVEN_LABEL; `number` of each is its line, or row from 1
    in Parquet.

    A label names its sentence by id, by text, or by both; texts are normalised. Raises JobError as
    `read_questions` does.
    """
    rows = 0
    for table, names in _tables(path, columns):
        line, question_id, sentence_id, text, label = (
            table[name].combine_chunks() for name in GIVEN_LABEL.names
        )

        missing = pc.or_(
            pc.or_(pc.is_null(question_id), pc.is_null(label)),
            pc.and_(pc.is_null(sentence_id), pc.is_null(text)),
        )
        known = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(label)), value_set=pa.array(list(BINARY)))
        wrong = pc.or_(missing, pc.is_null(known))
        if (row := wrong.index(True).as_py()) >= 0:
            problem = f"label {label[row].as_py()!r}; it must be 0 or 1"
            if missing[row].as_py():
                raise _missing(path, line[row].as_py(), columns, names(row))
            raise bad(path, line[row].as_py(), problem)

        question_id = _valid(path, "question_id", line, question_id, id_of)
        sentence_id = _valid(path, "sentence_id", line, sentence_id, id_of)
        text = _valid(path, "sentence", line, text, text_of)
        cells = [line, question_id, sentence_id, text, pa.array(BINARY.values(), pa.int8()).take(known)]
        yield pa.RecordBatch.from_arrays(cells, schema=GIVEN_LABEL)
        rows += len(table)

    if not rows:
        raise JobError(f"{path}: no label in it", BAD_DATA)


def _valid(
    path: Path, name: str, lines: pa.Array, cells: pa.Array, check: Callable[[Path, int, str, object], str]
) -> pa.Array:
    """The cells as `check` returns them, or its error; it is called for cells that are not plain ASCII of an
    ordinary length."""
    odd = pc.fill_null(pc.or_(not_plain(cells), pc.greater(pc.utf8_length(cells), LONGEST)), False)
    places = pc.indices_nonzero(odd)
    if not len(places):
        return cells
    pairs = zip(lines.take(places).to_pylist(), cells.take(places).to_pylist(), strict=True)
    return pc.replace_with_mask(
        cells, odd, pa.array([check(path, line, name, cell) for line, cell in pairs], pa.string())
    )


def _missing(path: Path, line: int, columns: Columns, names: Sequence[str]) -> JobError:
    """An error about a row that lacks one of its fields, in a table with these columns."""
    column_of = columns.find(SENTENCE_LABELS, names)
    absent = [name for name in ("question_id", "label") if name not in column_of]
    if not column_of.keys() & {"sentence_id", "text"}:
        absent.append("sentence")
    problem = "needs question_id, sentence_id or sentence, and label"
    if absent:
        return columns.missing(path, line, absent[0], names, problem)
    return bad(path, line, f"{problem}; one of them is empty; it has {', '.join(names)}")


def _tables(path: Path, columns: Columns) -> Iterator[tuple[pa.Table, Callable[[int], Sequence[str]]]]:
    """Tables with the columns of GIVEN_LABEL as text, null if a cell is empty; each with a function from a
    row to the names of its columns in the file."""
    if path.is_file() and path.name.lower().endswith(".parquet"):
        yield from _parquet_tables(path, columns)
        return
    rows = table_rows(path, SENTENCE_LABELS, columns)
    while chunk := list(islice(rows, _ROWS)):
        cells = {"number": pa.array([row.number for row in chunk], pa.int64())}
        for name in SENTENCE_LABELS.fields:
            cells[name] = pa.array(
                [_text(path, row.number, name, row.cells.get(name)) for row in chunk], pa.string()
            )
        yield pa.table(cells), partial(_names, chunk)


def _text(path: Path, line: int, name: str, value: Any) -> str | None:
    """A cell of JSON or TSV as text; the checks of `label_batches` are for texts alone."""
    if value is None or isinstance(value, str):
        return value
    if name == "label":
        return str(value)
    return text_of(path, line, "sentence", value) if name == "text" else id_of(path, line, name, value)


def _names(chunk: Sequence[TableRow], row: int) -> Sequence[str]:
    return chunk[row].names


def _parquet_tables(
    path: Path, columns: Columns
) -> Iterator[tuple[pa.Table, Callable[[int], Sequence[str]]]]:
    names: list[str] = []
    column_of: dict[str, str] = {}

    def choose(schema: pa.Schema) -> list[str]:
        names.extend(schema.names)
        columns.refuse_absent(path, None, SENTENCE_LABELS, names)
        column_of.update(columns.find(SENTENCE_LABELS, names))
        for name, column in column_of.items():
            kind = schema.field(column).type
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            texts = is_text(kind) or pa.types.is_null(kind) or (number and name != "text")
            if not texts and name != "label":
                raise JobError(f"{path}: the column {column} holds {kind}; give text", BAD_DATA)
        return list(column_of.values())

    for first, batch in parquet_batches(path, choose, _ROWS):
        cells = {"number": pa.array(range(first, first + batch.num_rows), pa.int64())}
        empty = pa.nulls(batch.num_rows, pa.string())
        for name in SENTENCE_LABELS.fields:
            cells[name] = empty
            if name in column_of:
                try:
                    column = batch.column(column_of[name])
                    text = pc.cast(column, pa.string()) if name == "label" else id_texts(column)
                except pa.ArrowException as e:
                    raise JobError(f"{path}: the column {column_of[name]} is no text: {e}", BAD_DATA) from e
                cells[name] = pc.if_else(pc.equal(text, ""), empty, text)

        yield pa.table(cells), lambda n: names
