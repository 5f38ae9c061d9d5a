"""Records that an index of a crawl names: the ranges of bytes to request, and the pages in the bytes
received.

A wanted record gives exactly one RawPage or Rejected, whatever its bytes hold: records wanted = records read
+ failures can be checked by counting. Its place is that in the WARC file that the index names, as if the
whole file had been read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import Place, RawPage
from answermill.schemas.corpus import Rejected

GAP = 16_384
"""Most bytes between two records that are read in one range."""
LONGEST = 8_388_608
"""Most bytes of a range that holds several records."""
LARGEST = 20_000_000
"""Most bytes of a record, compressed, that is fetched at all; CommonCrawl's have 5 MiB or less before
compression."""
NOT_FETCHED, NO_RECORD, OTHER_RECORD = "not_fetched", "no_record", "other_record"
FAILURES = (NOT_FETCHED, NO_RECORD, OTHER_RECORD)
"""Reasons of rejects for records that differ from the index, or are missing."""


@dataclass(frozen=True, slots=True)
class WantedRecord:
    """A record as an index describes it: `file` is its WARC file as documents name it, `path` where that is
    read."""

    file: str
    path: str
    offset: int
    length: int
    url: str

    @property
    def end(self) -> int:
        return self.offset + self.length

    def rejected(self, reason: str, detail: str) -> Rejected:
        return Place(self.file, self.offset, url=self.url).rejected(reason, detail)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of one file from `start` up to, and without, `end`, and the numbers of the records in them, in
    order."""

    path: str
    start: int
    end: int
    records: tuple[int, ...]


def refused(record: WantedRecord) -> str | None:
    """The reason for which a record is not fetched, by its length in the index; None if it is."""
    if record.length > LARGEST:
        return "too_large"
    return NO_RECORD if record.length < 1 else None


def ranges(records: Sequence[WantedRecord]) -> list[ByteRange]:
    """The ranges that hold all records that are fetched at all, in their order, which is that of files and
    offsets."""
    merged: list[ByteRange] = []
    for number, record in enumerate(records):
        if refused(record):
            continue
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.path == record.path
            and record.offset <= last.end + GAP
            and max(last.end, record.end) - last.start <= LONGEST
        ):
            merged[-1] = replace(last, end=max(last.end, record.end), records=(*last.records, number))
        else:
            merged.append(ByteRange(record.path, record.offset, record.end, (number,)))

    return merged


def record_pages(
    file: Path, records: Sequence[WantedRecord], starts: Mapping[int, int], failures: Mapping[int, str]
) -> Iterator[RawPage | Rejected]:
    """A page or reject for each record, in order. `file` holds those that were fetched, one after the other
    from the positions `starts`; the others have their reason in `failures`."""
    read = read_pages(file, "", Counter()) if starts else iter(())
    pending = next(read, None)
    ends = dict(zip(starts, [*starts.values(), None][1:], strict=True))
    for number, record in enumerate(records):
        if number in failures:
            yield record.rejected(refused(record) or NOT_FETCHED, failures[number])
            continue
        first, end = None, ends[number]
        while pending is not None and (end is None or pending.source_offset < end):
            first = first or pending
            pending = next(read, None)
        yield _placed(record, starts[number], first)


def _placed(record: WantedRecord, start: int, page: RawPage | Rejected | None) -> RawPage | Rejected:
    """The page or reject that was read of a record, with its place in the crawl."""
    if page is None:
        return record.rejected(NO_RECORD, f"{record.length} bytes there hold no record of a page")
    offset = record.offset + page.source_offset - start
    if isinstance(page, RawPage) and _key(page.url) != _key(record.url):
        return record.rejected(OTHER_RECORD, f"the index names {record.url}, the record {page.url}"[:1000])
    return replace(page, source_file=record.file, source_offset=offset, url=page.url or record.url)


def _key(url: str) -> tuple[str, str, str]:
    """A URL without the differences between the ways in which crawls and their indexes write it."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # UnicodeError is a subclass
        return url, "", ""
    return host, unquote(parts.path).rstrip("/"), unquote(parts.query)
