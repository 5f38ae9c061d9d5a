"""Parquet -> raw pages. A value that cannot be read costs its row, but for a date, which is left out; damage
costs the rest of its row group; others are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.parquet_files import DAMAGE, open_parquet, raise_unless_damage
from answermill.indexing.crawl.raw_page import WHOLE, Place, Range, RawPage
from answermill.indexing.crawl.rows import COLUMNS, row_page
from answermill.schemas.corpus import Rejected

# pytz's error for a zone that it does not know is a KeyError.
_UNREADABLE = (ValueError, OverflowError, LookupError, pa.ArrowException)
_MOST_LOST = 10_000_000  # rows of a damaged row group that are believed, and become a reject each


def parquet_pages(path: Path, name: str, within: Range = WHOLE) -> Iterator[RawPage | Rejected]:
    """A page or reject for each row that the file's footer counts, in order; one reject for a file that
    cannot be opened.

    Of a range, those of the row groups that begin in it, as if all rows had the same size.
    """
    start, stop = within
    try:
        file = open_parquet(path)
        columns = [column for column in file.schema_arrow.names if column in COLUMNS]
    except DAMAGE as e:
        raise_unless_damage(e)
        if not start:
            yield Place(name, 0).rejected("broken_record", f"the file cannot be opened: {e}"[:300])
        return

    with file:
        if twin := next((column for column in columns if columns.count(column) > 1), ""):
            if not start:
                detail = f"two columns have the name {twin}, in all {file.metadata.num_rows} rows"
                yield Place(name, 0).rejected("broken_record", detail)
            return

        first, size = 0, path.stat().st_size
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            place = size * first // max(1, file.metadata.num_rows)
            if start <= place and (stop is None or place < stop):
                yield from _group_pages(file, group, columns, name=name, first=first, rows=rows)
            first += rows

        if stop is None and first != file.metadata.num_rows:
            detail = f"the footer counts {file.metadata.num_rows} rows, its row groups have {first}"
            yield Place(name, first).rejected("broken_record", detail)


def _group_pages(
    file: pq.ParquetFile, group: int, columns: Sequence[str], *, name: str, first: int, rows: int
) -> Iterator[RawPage | Rejected]:
    """Pages and rejects of one row group, which begins with row `first` and has `rows` rows by the
    footer."""
    row = first
    problem = "it has fewer rows than the footer counts"
    try:
        for batch in file.iter_batches(batch_size=256, row_groups=[group], columns=columns):
            for values in _rows(batch):
                place = Place(name, row)
                yield (
                    place.rejected("broken_record", values)
                    if isinstance(values, str)
                    else row_page(place, values)
                )
                row += 1
    except DAMAGE as e:
        raise_unless_damage(e)
        problem = str(e)

    # Rows that the footer counts and the group does not hold become one reject each.
    lost = first + rows - row
    detail = f"row group {group} cannot be read from row {row} on: {problem}"[:300]
    if lost > _MOST_LOST:
        yield Place(name, row).rejected("broken_record", f"{lost} rows: {detail}")
        return

    for n in range(lost):
        yield Place(name, row + n).rejected("broken_record", detail)


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """The values of each row, or why they cannot be read: text that is not UTF-8, say."""
    batch = _in_known_zones(batch)
    try:
        rows = batch.to_pylist()
    except _UNREADABLE:
        rows = [_row(batch.slice(n, 1)) for n in range(batch.num_rows)]
    yield from rows


def _row(row: pa.RecordBatch) -> dict[str, Any] | str:
    values = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            values[name] = column[0].as_py()
        except _UNREADABLE as e:
            if name != "date":
                return f"{name}: {e}"[:300]
    return values


def _in_known_zones(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with times in UTC, as they are stored, where the name of their zone is another program's own:
    'tzutc()', 'GMT+2'."""
    for place, column in enumerate(batch.schema):
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz and not _is_known(kind.tz):
            times = batch.column(place).cast(pa.int64()).cast(pa.timestamp(kind.unit, "UTC"))
            batch = batch.set_column(place, column.name, times)
    return batch


@cache
def _is_known(zone: str) -> bool:
    try:
        pa.lib.string_to_tzinfo(zone)
    except _UNREADABLE:
        return False
    return True
