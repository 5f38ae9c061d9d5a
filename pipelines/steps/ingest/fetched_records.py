"""A unit of work that is some hundred wanted records of a crawl: fetched by ranges into one small file, and
read from there.

The records are kept in this machine's cache: first the file, then a listing of each record's place in it,
with the file's SHA-256. So a unit that was stopped is not fetched twice, and one that was fetched in part
counts as not fetched.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.parquet as pq

from answermill.files.atomic_files import WrongShape
from answermill.files.remote import as_path
from answermill.files.sealed_json import read_sealed, write_sealed
from answermill.files.store import CACHE, fetch, in_parallel, read_range, requests_to, sha256
from answermill.files.store_errors import Refused
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.crawl.records import ByteRange, WantedRecord, ranges, record_pages, refused
from answermill.pipelines.specs.ingest import IngestCounts
from answermill.schemas.corpus import Rejected

FILE, LISTING = "records.warc.gz", "fetched.json"


@dataclass(frozen=True)
class RecordUnit:
    """Some wanted records: a row group of `table`, which wanted_records.py writes. `size`: bytes of all of
    them."""

    number: int
    name: str
    table: Path
    group: int
    size: int

    @property
    def is_first(self) -> bool:
        return True

    @cached_property
    def records(self) -> list[WantedRecord]:
        rows = pq.ParquetFile(fetch(self.table)).read_row_group(self.group).to_pylist()
        return [WantedRecord(**row) for row in rows]

    def fetch(self) -> Path:
        """This machine's file of the records. Raises OSError if a server does not answer well even when it is
        asked again."""
        places = "".join(f"{record.path} {record.offset} {record.length}\n" for record in self.records)
        entry = CACHE.entry("records", hashlib.sha256(places.encode()).hexdigest())
        try:
            if sha256(entry / FILE) == _Fetched.read(entry).digest:
                return entry / FILE
        except (FileNotFoundError, WrongShape):
            pass

        with CACHE.scratch() as scratch:
            fetched = _fetch(self.records, scratch / FILE)
            (scratch / FILE).replace(entry / FILE)
            write_sealed(entry / LISTING, asdict(fetched))

        CACHE.shrink()
        return entry / FILE

    def pages(self, file: Path, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
        """A page or reject for each record; `file`: the file that `fetch` has given."""
        fetched = _Fetched.read(file.parent)
        starts, failures = (
            {int(n): value for n, value in values.items()} for values in (fetched.starts, fetched.failures)
        )
        return record_pages(file, self.records, starts, failures)  # type: ignore[arg-type]

    def position(self, page: RawPage | Rejected) -> int | None:
        """Return None: progress counts whole units."""
        return None

    def rejects(self, reason: str, detail: str) -> Iterator[Rejected]:
        """Rejects in the place of its records if it fails."""
        return (record.rejected(reason, detail) for record in self.records)

    def counts(self) -> IngestCounts:
        """Records, their requests, and the requested bytes, of which `record_bytes` are wanted."""
        byte_ranges = ranges(self.records)
        return IngestCounts(
            records=len(self.records),
            record_bytes=sum(record.length for record in self.records if not refused(record)),
            requests=len(byte_ranges),
            request_bytes=sum(byte_range.end - byte_range.start for byte_range in byte_ranges),
        )


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Content of LISTING: record → its start in FILE, or the reason why it is not there; and FILE's
    digest."""

    starts: dict[str, int]
    failures: dict[str, str]
    digest: str

    @classmethod
    def read(cls, folder: Path) -> _Fetched:
        return read_sealed(folder / LISTING, cls)


def _fetch(records: list[WantedRecord], file: Path) -> _Fetched:
    """Fetch the records into a file."""
    starts: dict[str, int] = {}
    failures = {str(n): f"{record.length} bytes" for n, record in enumerate(records) if refused(record)}
    byte_ranges = ranges(records)
    at_once = requests_to(as_path(records[0].path))

    with file.open("wb") as out:
        answers = in_parallel(_bytes_of, byte_ranges, at_once)
        for byte_range, answer in zip(byte_ranges, answers, strict=True):
            for n in byte_range.records:
                record = records[n]
                content = (
                    answer
                    if isinstance(answer, str)
                    else answer[record.offset - byte_range.start :][: record.length]
                )
                if isinstance(content, str):
                    failures[str(n)] = content
                elif len(content) < record.length:
                    failures[str(n)] = f"the file ends after {len(content):,} of the {record.length:,} bytes"
                else:
                    starts[str(n)] = out.tell()
                    out.write(content)

    return _Fetched(starts, failures, sha256(file))


def _bytes_of(wanted: ByteRange) -> bytes | str:
    """The bytes of a range, or the reason why they can never be had."""
    try:
        return read_range(as_path(wanted.path), wanted.start, wanted.end)
    except (FileNotFoundError, Refused) as e:
        return str(e)
