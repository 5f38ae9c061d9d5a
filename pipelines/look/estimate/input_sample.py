"""A bounded sample of a job's input: how many pages it has, and some of them, of all sizes, as files that ingest reads."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.steps.ingest.crawl_files import InputFile, find_files
from answermill.schemas.corpus import Rejected

BYTES_READ = 200_000_000
"""Bytes of the input, as it lies on the disk, that are read at the most; a file of rows is read to its end."""
BY_BYTES = (".warc", ".wet")
"""Suffixes of files in which a page's offset counts bytes of the file as it lies on the disk."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InputSample:
    """What is known of the input by a sample of it."""

    files: int
    pages: int
    """Of the whole input: as many a byte as were read, or as a crawl's index says."""
    pages_read: int
    unread: int
    """Of the pages that were read, those that reading itself refuses, such as redirects."""
    drawn: tuple[RawPage, ...]
    """Some of the others; the first few of them stand for all as well."""

    @property
    def readable(self) -> int:
        """Of the pages of the whole input, those that reading does not refuse, as are all that were drawn."""
        return round(self.pages * (1 - self.unread / max(1, self.pages_read)))


def draw(job: Job, settings: Ingest, most: int) -> InputSample:
    """Read files in the order of their names' hashes until BYTES_READ, and draw up to `most` pages from them.

    They are spread over the sizes of the pages: each is one of as many that follow each other in size, the one nearest to their
    mean, since a few long pages hold much of the text. Raises JobError: 66 if the input is missing, 65 if its format is
    unknown.
    """
    files = sorted(find_files(job, settings), key=lambda file: _hash(file.name))
    read, kinds = Counter[str](), Counter[bool]()

    # Whether a page was fetched and is no text, its bytes or characters, its hash.
    seen: list[tuple[bool, int, tuple[int, str]]] = []
    for page in _pages(files, read):
        kinds[isinstance(page, RawPage)] += 1
        if isinstance(page, RawPage):
            seen.append((page.text is None, len(page.body if page.text is None else page.text), by_hash(page)))

    # A second reading, so that only the pages that are drawn are held.
    places = {key: n for n, (*_, key) in enumerate(spread(sorted(seen), most, lambda page: page[1]))}
    by_key = {by_hash(page): page for page in _pages(files, Counter()) if isinstance(page, RawPage) and by_hash(page) in places}
    pages = round(kinds.total() * sum(file.size for file in files) / max(1, read["bytes"]))
    return InputSample(len(files), pages, kinds.total(), kinds[False], tuple(by_key[key] for key in places))


def _pages(files: Sequence[InputFile], read: Counter[str]) -> Iterator[RawPage | Rejected]:
    """The pages of files, one file after the other, until BYTES_READ; counts the bytes that were read as the disk has them."""
    for file in files:
        if read["bytes"] >= BYTES_READ:
            break
        share, by_bytes = 1.0, any(suffix in BY_BYTES for suffix in file.path.suffixes)
        for page in file.pages(file.fetch(), Counter()):
            if by_bytes and isinstance(page, RawPage) and read["bytes"] + page.source_offset >= BYTES_READ:
                share = page.source_offset / file.size
                break
            yield page
        read["bytes"] += round(share * file.size)


def spread(values: Sequence[T], most: int, size: Callable[[T], float]) -> list[T]:
    """At most `most` of the values, evenly spread over them, and so that the first few are as well: in the order of the numbers
    whose bits are those of 0, 1, 2, … backwards. Each has the size nearest to the mean of those that it stands for."""
    count = min(most, len(values))
    chosen = [_nearest_to_mean(values[n * len(values) // count : (n + 1) * len(values) // count], size) for n in range(count)]
    bits = max(1, (count - 1).bit_length())
    order = (int(f"{n:0{bits}b}"[::-1], 2) for n in range(2**bits))
    return [chosen[n] for n in order if n < count]


def _nearest_to_mean(values: Sequence[T], size: Callable[[T], float]) -> T:
    mean = sum(map(size, values)) / len(values)
    return min(values, key=lambda value: abs(size(value) - mean))


def by_hash(page: RawPage) -> tuple[int, str]:
    """Sort key of pages: a number that says nothing about their order."""
    key = f"{page.source_file}:{page.source_offset}"
    return _hash(key), key


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def write_pages(pages: Sequence[RawPage], folder: Path) -> list[str]:
    """Write pages as files that ingest reads: WARC for what was fetched, JSONL for what is text; returns the files' paths."""
    folder.mkdir(parents=True)
    texts = [page for page in pages if page.text is not None]
    fetched = [page for page in pages if page.text is None]
    files = []
    if fetched:
        files.append(folder / "pages.warc.gz")
        with gzip.open(files[-1], "wb", compresslevel=1) as out:
            for page in fetched:
                out.write(_warc_record(page))
    if texts:
        files.append(folder / "pages.jsonl")
        files[-1].write_text("".join(_line(page) + "\n" for page in texts), encoding="utf-8")
    return [str(file) for file in files]


def _line(page: RawPage) -> str:
    values = {"id": page.doc_id, "url": page.url, "title": page.title, "text": page.text, "language": page.language}
    return json.dumps({name: value for name, value in values.items() if value} | {"text": page.text})


def _warc_record(page: RawPage) -> bytes:
    charset = f"; charset={page.charset}" if page.charset else ""
    block = f"HTTP/1.1 200 OK\r\nContent-Type: {page.content_type}{charset}\r\n\r\n".encode() + page.body
    fields = {
        "WARC-Type": "response",
        "WARC-Record-ID": page.source_record or f"<urn:sample:{page.source_offset}>",
        "WARC-Date": page.date or "2000-01-01T00:00:00Z",
        "WARC-Target-URI": page.url,
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(block)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"WARC/1.0\r\n{head}\r\n".encode() + block + b"\r\n\r\n"
