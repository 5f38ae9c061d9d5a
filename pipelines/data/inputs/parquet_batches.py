"""Parquet files that people provide: read in batches, with damage reported by file, row and row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from answermill.files.parquet_files import DAMAGE, open_parquet, raise_unless_damage
from answermill.files.store import fetch
from answermill.indexing.crawl.values import EXACT
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, JobError

ROWS = 8_192  # in memory at a time


def parquet_batches(
    path: Path, choose: Callable[[pa.Schema], Sequence[str]], rows: int = ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of its first row, from 1; batch) with the columns that `choose` takes of the file's schema.

    Every text in a batch is UTF-8, and a column of bytes is one of texts, as which some writers do not mark
    it. Raises JobError (65) if the file is no Parquet, or damaged: with the row group, or the row; and if two
    columns have a chosen name.
    """
    try:
        file = open_parquet(fetch(path))
        schema = file.schema_arrow
    except DAMAGE as e:
        raise_unless_damage(e)
        raise JobError(f"{path}: not readable as Parquet: {e}", BAD_DATA) from e

    # Group by group, so that an error names the group.
    with file:
        columns = list(choose(schema))
        refuse_twins(path, schema, columns)
        first = 1
        for group in range(file.num_row_groups):
            try:
                for read in file.iter_batches(rows, row_groups=[group], columns=columns):
                    batch = _with_texts(read)
                    _check(path, first, batch)
                    yield first, batch
                    first += batch.num_rows
            except DAMAGE as e:
                raise_unless_damage(e)
                raise bad(
                    path,
                    first,
                    f"row group {group + 1} of {file.num_row_groups} is damaged from this row on: {e}",
                ) from e


def parquet_rows(
    path: Path, choose: Callable[[pa.Schema], Sequence[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row, from 1; column → value) of the columns that `choose` takes. Raises JobError as `parquet_batches`
    does, and for a value that Python cannot represent, such as a date beyond the year 9999."""
    for first, batch in parquet_batches(path, choose):
        try:
            rows = batch.to_pylist()
        except (ValueError, OverflowError, pa.ArrowException) as e:
            raise bad(
                path, first, f"a value here, or in the next {batch.num_rows - 1:,} rows, cannot be read: {e}"
            ) from e
        yield from enumerate(rows, first)


def refuse_twins(path: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raise JobError (65) if two columns of a file have one of these names: which is meant is not known."""
    for name in columns:
        if schema.names.count(name) > 1:
            raise JobError(f"{path}: two columns have the name {name!r}; give one of them another", BAD_DATA)


def is_text(kind: pa.DataType) -> bool:
    """True for a type of Parquet's columns that holds texts, or bytes that may be texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind) or _is_bytes(kind)


def id_texts(ids: pa.Array) -> pa.Array:
    """A column of ids as texts; whole numbers that are stored as floats, as pandas does beside a missing
    value, are those of the integers. Raises pyarrow.ArrowInvalid for other floats, and for those that stand
    for several whole numbers.

    >>> id_texts(pa.array([7.0, None])).to_pylist()
    ['7', None]
    """
    if pa.types.is_floating(ids.type):
        if pc.any(pc.greater_equal(pc.abs(ids), EXACT)).as_py():
            raise pa.ArrowInvalid(f"a float of {EXACT} or more stands for several whole numbers")
        ids = pc.cast(ids, pa.int64())
    return pc.cast(ids, pa.string())


def _with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns of bytes as texts, whose UTF-8 is not checked."""
    for place, column in enumerate(batch.schema):
        if _is_bytes(column.type):
            texts = batch.column(place).cast(pa.binary()).cast(pa.string(), safe=False)
            batch = batch.set_column(place, column.name, texts)
    return batch


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or bool(pa.types.is_binary_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind))


def _check(path: Path, first: int, batch: pa.RecordBatch) -> None:
    """Raise JobError (65) with the row and column of a text that is not UTF-8."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as e:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for n in range(len(column)):
                try:
                    column.slice(n, 1).validate(full=True)
                except pa.ArrowInvalid:
                    raise bad(path, first + n, f"{name} is not UTF-8, or damaged ({e})") from e
        raise
