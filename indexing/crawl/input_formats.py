"""Input files -> raw pages with where they came from: WARC and WET, JSONL, DPR's TSV, Parquet; all but Parquet also as .gz.

A page is a response, resource or conversion record of a WARC file, a line, or a row, and each gives exactly one RawPage
or Rejected: pages in = documents + rejects can be checked by counting. A file is read as one stream in
constant memory. A broken part costs nothing but itself:
- a gzip member that does not inflate, or whose checksum is wrong, is one reject; reading goes on at the next member;
- a record whose length is wrong is one reject; reading goes on at the next line that starts a record;
- nothing is inflated beyond MAX_BODY bytes, whatever it claims.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from indexing.crawl.gzip_stream import CHUNK, GZIP, inflated_head, inflates
from indexing.crawl.raw_page import Place, RawPage
from indexing.crawl.rows import line_pages, parquet_pages, tsv_row
from indexing.crawl.warc import warc_pages
from schemas.corpus import Rejected

_UNSUPPORTED = {
    b"filedesc://": "ARC 1.0",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "ZIP (WACZ)",
}


def read_pages(path: Path, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """The pages of a file, in its order. `name` becomes source_file; `skipped` counts WARC records that are no pages.

    The content decides the format, or the suffix if the content does not. A format that is known but not read gives one
    Rejected, so that a job goes on; an unknown one raises ValueError.
    """
    with path.open("rb") as file:
        head = file.read(CHUNK)
    damaged = path.suffix == ".gz" and GZIP in head and not head.startswith(b"WARC/")  # at its very start
    compressed = head.startswith(GZIP) or damaged
    if compressed:
        head = inflated_head(head)
    suffixes = [s.lower() for s in path.suffixes]
    for magic, kind in _UNSUPPORTED.items():
        if head.startswith(magic):
            detail = f"{kind} is not read; give WARC, WET, JSONL, TSV or Parquet, plain or .gz"
            return iter([Place(name, 0).rejected("unsupported_format", detail)])
    if head.startswith(b"PAR1"):
        return parquet_pages(path, name)
    if not compressed and not head:
        return iter(())
    if head.startswith(b"WARC/") or {".warc", ".wet", ".wat"} & set(suffixes):
        return warc_pages(path, compressed, name, skipped)
    if {".jsonl", ".ndjson", ".json"} & set(suffixes) or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return line_pages(path, compressed, name, json.loads)
    if ".tsv" in suffixes and head.startswith(b"id\ttext"):
        columns = head.split(b"\n", 1)[0].decode().strip().split("\t")
        return line_pages(path, compressed, name, lambda line: tsv_row(columns, line), header=True)
    if not head and inflates(path):
        return iter(())
    raise ValueError(
        f"{path}: unknown format (starts with {head[:16]!r}); known: WARC and WET (.warc, .wet), JSONL (.jsonl), "
        "TSV whose first line is 'id<tab>text<tab>title', Parquet (.parquet)"
    )
