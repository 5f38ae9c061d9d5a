"""Input files -> raw pages with their places: WARC and WET, JSONL, DPR's TSV, Parquet; all but Parquet also
as .gz.

A page is a response, resource or conversion record of a WARC file, a line, or a row, and each gives exactly
one RawPage or Rejected: pages in = documents + rejects can be checked by counting. A file is read as one
stream in constant memory. A broken part costs nothing but itself:
- a gzip member that does not inflate, or whose checksum is wrong, is one reject; reading goes on at the next
  member;
- a record whose length is wrong is one reject; reading goes on at the next line that starts a record;
- a value in a row of Parquet is one reject; a page that is damaged costs the rest of its row group, a reject
  for each row;
- nothing is inflated beyond MAX_BODY bytes, whatever it claims.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from answermill.indexing.crawl.gzip_stream import CHUNK, GZIP, ByteStream, inflated_head, inflates
from answermill.indexing.crawl.parquet_file import parquet_pages
from answermill.indexing.crawl.raw_page import WHOLE, Place, Range, RawPage
from answermill.indexing.crawl.rows import line_pages, tsv_row
from answermill.indexing.crawl.warc import warc_pages
from answermill.schemas.corpus import Rejected

_SAMPLE = 8_388_608
"""Bytes by which the size of a compressed text is estimated."""
_UNSUPPORTED = {
    b"filedesc://": "ARC 1.0",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "ZIP (WACZ)",
}


def suffix_of(path: Path) -> str:
    """The suffix that names a file's format, in lower case: '.warc' of 'x.WARC.gz', '.md5' of
    'x.warc.gz.md5'."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_pages(
    path: Path, name: str, skipped: Counter[str], within: Range = WHOLE
) -> Iterator[RawPage | Rejected]:
    """The pages of a file, in its order. `name` becomes source_file; `skipped` counts WARC records that are
    no pages.

    The content decides the format, or the suffix if the content does not. A format that is known but not read
    gives one Rejected, so that a job goes on, and so does a file without a record (`empty_file`); an unknown
    one raises ValueError. The pages `within` the ranges of `cut` are together those of the file.
    """
    pages = _pages(path, name, skipped, within)
    return pages if within.start else _or_empty(pages, path, name, skipped, within)


def cut(path: Path, parts: int) -> list[Range]:
    """A file in `parts` ranges of about equal size, for `read_pages`; each record is in one of them, and a
    range may have none."""
    if parts < 2:
        return [WHOLE]
    head, compressed = _head(path)
    size = path.stat().st_size
    if compressed and not _is_warc(path, head):
        # What all is inflated to is not known before it is.
        stream = ByteStream(path, compressed, b"")
        stream.need(_SAMPLE)
        size = int(size * stream.ratio())
        stream.close()
    edges = [0, *(max(n, size * n // parts) for n in range(1, parts)), None]
    return [Range(start or 0, stop) for start, stop in pairwise(edges)]


def _or_empty(
    pages: Iterator[RawPage | Rejected], path: Path, name: str, skipped: Counter[str], within: Range
) -> Iterator[RawPage | Rejected]:
    before, count = skipped.total(), 0
    for page in pages:
        count += 1
        yield page
    if count or skipped.total() > before:
        return

    # The first range may be empty where the file is not.
    others: Counter[str] = Counter()
    if within == WHOLE or not (any(True for _ in _pages(path, name, others, WHOLE)) or others):
        yield Place(name, 0).rejected("empty_file", "the file was read to its end and has no record")


def _head(path: Path) -> tuple[bytes, bool]:
    """(the first bytes of a file, inflated if it is compressed; whether it is)."""
    with path.open("rb") as file:
        head = file.read(CHUNK)
    damaged = path.suffix == ".gz" and GZIP in head and not head.startswith(b"WARC/")  # at its very start
    compressed = head.startswith(GZIP) or damaged
    return (inflated_head(head) if compressed else head), compressed


def _is_warc(path: Path, head: bytes) -> bool:
    return head.startswith(b"WARC/") or suffix_of(path) in (".warc", ".wet", ".wat")


def _pages(path: Path, name: str, skipped: Counter[str], within: Range) -> Iterator[RawPage | Rejected]:
    head, compressed = _head(path)
    suffix = suffix_of(path)
    for magic, kind in _UNSUPPORTED.items():
        if head.startswith(magic):
            detail = f"{kind} is not read; give WARC, WET, JSONL, TSV or Parquet, plain or .gz"
            refused = Place(name, 0).rejected("unsupported_format", detail)
            return iter(() if within.start else (refused,))

    if not compressed and not head:
        return iter(())

    if head.startswith(b"PAR1") or suffix == ".parquet":
        return parquet_pages(path, name, within)
    if _is_warc(path, head):
        return warc_pages(path, compressed, name, skipped, within)

    text = head.removeprefix(codecs.BOM_UTF8)
    if suffix in (".jsonl", ".ndjson", ".json") or text.lstrip(b" \t\r\n").startswith(b"{"):
        return line_pages(path, compressed, name, json.loads, within=within)

    if suffix == ".tsv" and text.startswith(b"id\ttext"):
        columns = text.split(b"\n", 1)[0].decode("utf-8", "replace").strip().split("\t")
        return line_pages(
            path, compressed, name, lambda line: tsv_row(columns, line), header=True, within=within
        )

    if not head and inflates(path):
        return iter(())

    raise ValueError(
        f"{name}: unknown format (starts with {head[:16]!r}); known: WARC and WET (.warc, .wet), JSONL "
        "(.jsonl), "
        "TSV whose first line is 'id<tab>text<tab>title', Parquet (.parquet)"
    )
