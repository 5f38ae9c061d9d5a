"""A bounded sample of a job's input: how many pages it has, and some of them, drawn by hash, as files that ingest reads."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappush, heapreplace
from pathlib import Path

from indexing.crawl.raw_page import RawPage
from pipelines.config.job_file import Ingest, Job
from pipelines.ingest.crawl_files import InputFile, find_files
from schemas.corpus import Rejected

BYTES_READ = 200_000_000
"""Bytes of the input, as it lies on the disk, that are read at the most; a file of rows is read to its end."""
BY_BYTES = (".warc", ".wet")


@dataclass(frozen=True, slots=True)
class InputSample:
    """What is known of the input by a sample of it."""

    files: int
    bytes: int
    bytes_read: int
    pages_read: int
    pages: int
    """Of the whole input: as many a byte as were read, or as a crawl's index says."""
    unread: int
    """Of the pages that were read, those that reading itself refuses, such as redirects."""
    drawn: tuple[RawPage, ...]
    """Of the others those whose hashes are smallest, the smallest first."""


def draw(job: Job, settings: Ingest, most: int) -> InputSample:
    """Read files in the order of their names' hashes until BYTES_READ, and draw up to `most` pages from them.

    Raises JobError (66) if the input is missing, 65 if its format is unknown.
    """
    files = find_files(job, settings)
    sizes = {file.number: file.size for file in files}
    heap: list[tuple[int, str, RawPage]] = []  # the hash is negative: the largest comes first
    read = pages = unread = 0
    for file in sorted(files, key=lambda file: _hash(file.name)):
        if read >= BYTES_READ:
            break
        share = 1.0
        for page in file.pages(file.fetch(), Counter()):
            if isinstance(page, RawPage) and read + page.source_offset >= BYTES_READ and _counts_bytes(file):
                share = page.source_offset / sizes[file.number]
                break
            pages += 1
            if isinstance(page, Rejected):
                unread += 1
                continue
            number, key = by_hash(page)
            entry = (-number, key, page)
            if len(heap) < most:
                heappush(heap, entry)
            elif entry > heap[0]:
                heapreplace(heap, entry)
        read += round(share * sizes[file.number])
    drawn = tuple(page for _, _, page in sorted(heap, reverse=True))
    whole = sum(sizes.values())
    return InputSample(len(files), whole, read, pages, round(pages * whole / max(1, read)), unread, drawn)


def by_hash(page: RawPage) -> tuple[int, str]:
    """Sort key of pages: a number that says nothing about their order."""
    key = f"{page.source_file}:{page.source_offset}"
    return _hash(key), key


def _counts_bytes(file: InputFile) -> bool:
    """Whether a page's offset counts bytes of the file as it lies on the disk."""
    return any(suffix in BY_BYTES for suffix in file.path.suffixes)


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
