"""The records that a job wants by a query on a crawl's columnar index, as units of work.

The index is read once, and only the columns and row groups that the query needs. The records are sorted by
file and offset, and cut into units, so that neighbours are fetched together.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing
from answermill.files.parquet_files import check_depth
from answermill.files.store import fetch, store_of
from answermill.pipelines.config.ingest_section import CrawlIndex
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.steps.ingest.crawl_files import files_of, written_name
from answermill.pipelines.steps.ingest.fetched_records import RecordUnit
from answermill.pipelines.steps.ingest.path_lists import below, root_of

RECORDS = "records.parquet"
"""File of the step's work folder that holds the wanted records, a row group for each unit."""
UNIT_RECORDS, UNIT_BYTES = 500, 67_108_864
KEY = "ingest.crawl_index"
_OFFSET, _LENGTH = "warc_record_offset", "warc_record_length"
_COLUMNS = {"url": pa.string(), "warc_filename": pa.string(), _OFFSET: pa.int64(), _LENGTH: pa.int64()}
_SIZES = b"answermill.sizes"


def index_files(job: Job, settings: Ingest) -> dict[str, Path]:
    """Name → file, of all files of the index; from a list of paths only those of the subset 'warc', which
    holds pages."""
    if settings.crawl_index is None:
        return {}
    patterns = settings.crawl_index.files
    listed, _ = files_of(job, settings, patterns, f"{KEY}.files", lambda path: path.suffix == ".parquet")
    paths = [
        path for path in listed if "/subset=" not in path.as_posix() or "/subset=warc/" in path.as_posix()
    ]
    if not paths:
        raise JobError(f"{KEY}.files: none of them is of subset=warc", BAD_DATA)
    return dict(sorted((written_name(path, job.folder), path) for path in paths))


def version(file: Path) -> str:
    """Version of a file of the index, which is another for other content."""
    return f"{file.stat().st_size} bytes {store_of(file).version()}"


def choose(job: Job, settings: Ingest, table: Path, first: int) -> list[RecordUnit]:
    """The units of the wanted records, numbered from `first`; `table` is written, unless it was before.

    Raises JobError (65) if the index is no index, or knows no such record.
    """
    if settings.crawl_index is None:
        return []
    if not table.is_file():
        _write(_wanted(job, settings, settings.crawl_index), table)
    sizes = json.loads(pq.ParquetFile(fetch(table)).metadata.metadata[_SIZES])
    return [RecordUnit(first + n, f"crawl_index-{n:05d}", table, n, size) for n, size in enumerate(sizes)]


def wanted(table: Path) -> int:
    """Number of wanted records; 0 if there is no such table."""
    return int(pq.ParquetFile(fetch(table)).metadata.num_rows) if table.is_file() else 0


def _wanted(job: Job, settings: Ingest, query: CrawlIndex) -> pa.Table:
    """The records that fulfil the query, each once, by file and offset."""
    tables = []
    for name, file in index_files(job, settings).items():
        rows = _selected(name, file, query)
        root = root_of(job, settings, file)
        names = rows["warc_filename"].dictionary_encode().combine_chunks()
        paths = [below(root, entry, f"{KEY}.files: {name}") for entry in names.dictionary.to_pylist()]
        columns = {
            "file": pa.array([written_name(path, job.folder) for path in paths], pa.string()).take(
                names.indices
            ),
            "path": pa.array([str(path) for path in paths], pa.string()).take(names.indices),
        }
        tables.append(
            pa.table({**columns, "offset": rows[_OFFSET], "length": rows[_LENGTH], "url": rows["url"]})
        )

    records = pa.concat_tables(tables).sort_by(
        [(name, "ascending") for name in ("path", "offset", "length", "url")]
    )
    records = records.combine_chunks().take(pa.array(_first_of_each(records)))
    if 0 < query.max_records < len(records):
        smallest = heapq.nsmallest(query.max_records, range(len(records)), _hashes(records).__getitem__)
        records = records.take(pa.array(sorted(smallest)))

    if not len(records):
        raise JobError(f"{KEY}: the index has no record that fulfils it", BAD_DATA)

    return records


def _first_of_each(wanted: pa.Table) -> Any:
    """The rows, sorted by path and offset, that are not at the same place as the one before."""
    if not len(wanted):
        return np.zeros(0, np.int64)
    path, offset = (
        wanted["path"].dictionary_encode().combine_chunks().indices.to_numpy(),
        wanted["offset"].to_numpy(),
    )
    return np.flatnonzero(np.r_[True, (path[1:] != path[:-1]) | (offset[1:] != offset[:-1])])


def _hashes(wanted: pa.Table) -> list[bytes]:
    places = zip(wanted["path"].to_pylist(), wanted["offset"].to_pylist(), strict=True)
    return [hashlib.sha256(f"{path} {offset}".encode()).digest() for path, offset in places]


def _selected(name: str, file: Path, query: CrawlIndex) -> pa.Table:
    """The rows of a file of the index that fulfil the query. Raises JobError (65) if the file lacks a column
    for it."""
    try:
        check_depth(file)
        index = _opened(file)
        if missing := _COLUMNS.keys() - {*index.schema.names}:
            raise KeyError(f"it has no column {', '.join(sorted(missing))}")
        condition = None
        for clause in _conditions(index.schema, query):
            condition = clause if condition is None else condition & clause
        rows = index.to_table(columns=list(_COLUMNS), filter=condition)
        rows = rows.cast(pa.schema(list(_COLUMNS.items())))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, KeyError) as e:
        why = " ".join(str(e.args[0] if isinstance(e, KeyError) else e).split())[:300]
        raise JobError(f"{KEY}.files: {name}: not CommonCrawl's columnar index: {why}", BAD_DATA) from e

    if empty := next((column for column in _COLUMNS if rows[column].null_count), None):
        raise JobError(f"{KEY}.files: {name}: a row without {empty}", BAD_DATA)

    return rows


def _opened(file: Path) -> ds.Dataset:
    return store_of(file).parquet()


def _conditions(schema: pa.Schema, query: CrawlIndex) -> Iterator[ds.Expression]:
    """Conditions of the query, a column each. Raises KeyError if the index has no such column."""
    one_of = {
        "url_host_registered_domain": query.domains,
        "content_mime_detected": query.mime,
        "fetch_status": query.status,
    }
    for column, values in one_of.items():
        if values:
            yield ds.field(column).isin(pa.array(values, schema.field(column).type))

    if query.languages:
        pattern = "|".join(map(_escaped, query.languages))
        yield pc.match_substring_regex(ds.field("content_languages"), pattern=f"^({pattern})(,|$)")

    kind = schema.field("fetch_time").type if query.fetched_from or query.fetched_before else None
    if query.fetched_from:
        yield ds.field("fetch_time") >= _moment(query.fetched_from, kind)
    if query.fetched_before:
        yield ds.field("fetch_time") < _moment(query.fetched_before, kind)


def _escaped(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def _moment(day: str, kind: pa.DataType) -> pa.Scalar:
    """The beginning of a day, UTC, in the index's type of time."""
    moment = datetime.fromisoformat(day)
    return pa.scalar(moment.replace(tzinfo=UTC) if getattr(kind, "tz", None) else moment, kind)


def _write(wanted: pa.Table, table: Path) -> None:
    """Write the records, a row group for each unit."""
    lengths = wanted["length"].to_pylist()
    cuts = list(_cuts(lengths))
    with (
        replacing(table) as temporary,
        pq.ParquetWriter(temporary, wanted.schema, compression="zstd") as writer,
    ):
        for first, end in cuts:
            writer.write_table(wanted.slice(first, end - first), row_group_size=end - first)
        writer.add_key_value_metadata({_SIZES: json.dumps([sum(lengths[first:end]) for first, end in cuts])})


def _cuts(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, end) of the records of each unit."""
    first = size = 0
    for number, length in enumerate(lengths):
        if number > first and (number - first == UNIT_RECORDS or size + length > UNIT_BYTES):
            yield first, number
            first, size = number, 0
        size += length
    yield first, len(lengths)
