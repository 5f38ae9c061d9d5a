"""Labels of sentences that people provide, as TSV, JSONL or Parquet, in Arrow batches: there may be a hundred
million."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.labels.given_labels import GIVEN_LABEL
from answermill.indexing.passages.text import not_plain
from answermill.pipelines.data.inputs.parquet_batches import parquet_batches
from answermill.pipelines.data.inputs.tables import LONGEST, first_cell, id_of, table_rows, text_of
from answermill.pipelines.errors import BAD_DATA, JobError

_COLUMNS = {
    "question_id": ("question_id",),
    "sentence_id": ("sentence_id",),
    "text": ("sentence", "text"),
    "label": ("label",),
}
_ALL_COLUMNS = tuple(name for names in _COLUMNS.values() for name in names)
_ROWS = 1 << 15  # in memory at a time


def label_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The sentence labels of a file, in batches of GIVEN_LABEL; `number` of each is its line, or row from 1
    in Parquet.

    A label names its sentence by id, by text, or by both; texts are normalised. Raises JobError as
    `read_questions` does.
    """
    rows = 0
    for table, names in _tables(path):
        line, question_id, sentence_id, text, label = (
            table[name].combine_chunks() for name in GIVEN_LABEL.names
        )

        missing = pc.or_(
            pc.or_(pc.is_null(question_id), pc.is_null(label)),
            pc.and_(pc.is_null(sentence_id), pc.is_null(text)),
        )
        wrong = pc.or_(missing, pc.invert(pc.is_in(label, value_set=pa.array(["0", "1"]))))
        if (row := wrong.index(True).as_py()) >= 0:
            problem = f"label {label[row].as_py()!r}; it must be 0 or 1"
            if missing[row].as_py():
                problem = (
                    f"needs question_id, sentence_id or sentence, and label; it has {', '.join(names(row))}"
                )
            raise JobError(f"{path}:{line[row]}: {problem}", BAD_DATA)

        question_id = _valid(path, "question_id", line, question_id, id_of)
        sentence_id = _valid(path, "sentence_id", line, sentence_id, id_of)
        text = _valid(path, "sentence", line, text, text_of)
        columns = [line, question_id, sentence_id, text, pc.cast(label, pa.int8())]
        yield pa.RecordBatch.from_arrays(columns, schema=GIVEN_LABEL)
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


def _tables(path: Path) -> Iterator[tuple[pa.Table, Callable[[int], Iterable[str]]]]:
    """Tables with the columns of GIVEN_LABEL as text, null if a cell is empty; each with a function from a
    row to the names of its columns in the file."""
    if path.is_file() and path.name.lower().endswith(".parquet"):
        yield from _parquet_tables(path)
        return
    rows = table_rows(path, _ALL_COLUMNS)
    while chunk := list(islice(rows, _ROWS)):
        columns = {"number": pa.array([line for line, _ in chunk], pa.int64())}
        for name, headings in _COLUMNS.items():
            columns[name] = pa.array(
                [_text(path, line, name, first_cell(row, headings)) for line, row in chunk], pa.string()
            )
        yield pa.table(columns), partial(_names, chunk)


def _text(path: Path, line: int, name: str, value: Any) -> str | None:
    """A cell of JSON or TSV as text; the checks of `label_batches` are for texts alone."""
    if value is None or isinstance(value, str):
        return value
    if name == "label":
        return str(value)
    return text_of(path, line, "sentence", value) if name == "text" else id_of(path, line, name, value)


def _names(chunk: Sequence[tuple[int, Mapping[str, Any]]], row: int) -> Iterable[str]:
    return map(str, chunk[row][1])


def _parquet_tables(path: Path) -> Iterator[tuple[pa.Table, Callable[[int], Iterable[str]]]]:
    names: list[str] = []

    def choose(schema: pa.Schema) -> list[str]:
        names.extend(schema.names)
        present = [name for name in _ALL_COLUMNS if name in names]
        for name in present:
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
            if not texts and (name in _COLUMNS["text"] or not pa.types.is_integer(kind)) and name != "label":
                raise JobError(f"{path}: the column {name} holds {kind}; give text", BAD_DATA)
        return present

    for first, batch in parquet_batches(path, choose, _ROWS):
        columns = {"number": pa.array(range(first, first + batch.num_rows), pa.int64())}
        for name, headings in _COLUMNS.items():
            empty = pa.nulls(batch.num_rows, pa.string())
            try:
                texts = [
                    pc.cast(batch.column(column), pa.string())
                    for column in headings
                    if column in batch.schema.names
                ]
            except pa.ArrowException as e:
                raise JobError(f"{path}: the column {headings[0]} is no text: {e}", BAD_DATA) from e
            columns[name] = pc.coalesce(
                *(pc.if_else(pc.equal(text, ""), empty, text) for text in texts), empty
            )

        yield pa.table(columns), lambda n: names
