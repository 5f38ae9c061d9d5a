"""A small crawl as CommonCrawl publishes one: WARC files, the list of their paths, and a columnar index of
their responses."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.indexing.crawl.gzip_stream import GZIP, inflated_head
from answermill.indexing.documents.domains import domain_of
from tools.sample_web import build

SAMPLE = build.SAMPLE / "web.warc.gz"
INDEX = pa.schema(
    [
        ("url", pa.string()),
        ("url_host_registered_domain", pa.string()),
        ("content_languages", pa.string()),
        ("content_mime_detected", pa.string()),
        ("fetch_status", pa.int16()),
        ("fetch_time", pa.timestamp("ms")),
        ("warc_filename", pa.string()),
        ("warc_record_offset", pa.int32()),
        ("warc_record_length", pa.int32()),
    ]
)


def members(content: bytes) -> list[bytes]:
    """The gzip members of a WARC file."""
    places = (match.start() for match in re.finditer(re.escape(GZIP), content))
    starts = [place for place in places if inflated_head(content[place : place + 4096], 5) == b"WARC/"]
    return [content[start:end] for start, end in zip(starts, [*starts[1:], len(content)], strict=True)]


def write_crawl(folder: Path, files: int = 3, sources: Sequence[Path] = (SAMPLE,)) -> list[dict[str, Any]]:
    """Write crawl-data/warc-N.warc.gz of the records of `sources`, warc.paths.gz and index.parquet; returns
    the index's rows.

    The index has all response records that can be read, whatever their status."""
    parts: list[list[bytes]] = [[] for _ in range(files)]
    records = [content for source in sources for content in members(source.read_bytes())]
    for n, content in enumerate(records):
        parts[n * files // len(records)].append(content)
    (folder / "crawl-data").mkdir(parents=True)
    rows, names = [], []

    for n, contents in enumerate(parts):
        names.append(f"crawl-data/warc-{n}.warc.gz")
        (folder / names[-1]).write_bytes(b"".join(contents))
        offset = 0

        for content in contents:
            row = _row(content)
            if row is not None:
                place = {
                    "warc_filename": names[-1],
                    "warc_record_offset": offset,
                    "warc_record_length": len(content),
                }
                rows.append({**row, **place})
            offset += len(content)

    (folder / "warc.paths.gz").write_bytes(
        gzip.compress("".join(f"{name}\n" for name in names).encode(), mtime=0)
    )
    write_index(folder / "index.parquet", rows)
    return rows


def write_index(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=INDEX), file, row_group_size=20)


def _row(member: bytes) -> dict[str, Any] | None:
    """The index's row of a response; None for other records, and for one that does not inflate."""
    try:
        record = zlib.decompress(member, wbits=31)
    except zlib.error:
        return None

    head, _, block = record.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    if fields["WARC-Type"] != "response" or not block.startswith(b"HTTP/"):
        return None

    url = fields["WARC-Target-URI"].strip("<>")
    mime = re.search(rb"(?i)content-type: *([\w/+-]+)", block)
    return {
        "url": url,
        "url_host_registered_domain": domain_of(url),
        "content_languages": "eng",
        "content_mime_detected": mime[1].decode() if mime else None,
        "fetch_status": int(block.split(b" ", 2)[1]),
        "fetch_time": datetime.fromisoformat(fields["WARC-Date"].removesuffix("Z")),
    }
