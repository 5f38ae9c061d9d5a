"""Parquet files that people provide: read in batches, with damage reported by file, row and row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from answermill.files.parquet_files import open_parquet
from answermill.files.store import fetch
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, JobError

ROWS = 8_192  # in memory at a time
DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors that Arrow raises about a damaged file; the last about a column's name. See
`raise_unless_damage`."""


def parquet_batches(
    path: Path, choose: Callable[[pa.Schema], Sequence[str]], rows: int = ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of its first row, from 1; batch) with the columns that `choose` takes of the file's schema.

    Every text in a batch is UTF-8. Raises JobError (65) if the file is no Parquet, or damaged: with the row
    group, or the row.
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
        first = 1
        for group in range(file.num_row_groups):
            try:
                for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
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


def raise_unless_damage(error: Exception) -> None:
    """Raise a disk error again; Arrow's errors about a file's content have no error number."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


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
