"""WARC records as bytes, and what is read from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected

HTML = b"<html><title>t</title><p>Hello</p></html>"


def record(
    kind: str, block: bytes, content_type: str = "application/http; msgtype=response", **more: object
) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": "<urn:uuid:1>",
        "WARC-Target-URI": "http://example.com/",
        "WARC-Date": "2020-01-02T03:04:05Z",
        "Content-Type": content_type,
        "Content-Length": len(block),
    } | {name.replace("_", "-"): value for name, value in more.items()}
    header = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return b"WARC/1.0\r\n" + header.encode() + b"\r\n" + block + b"\r\n\r\n"


def http(body: bytes = HTML, status: str = "200 OK", content_type: str = "text/html", **more: str) -> bytes:
    fields = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in more.items()}
    header = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status}\r\n{header}\r\n".encode() + body


def read(path: Path, content: bytes) -> tuple[list[RawPage | Rejected], Counter[str]]:
    path.write_bytes(content)
    skipped: Counter[str] = Counter()
    return list(read_pages(path, "in", skipped)), skipped


def outcomes(records: Sequence[RawPage | Rejected]) -> list[str]:
    return [one.reason if isinstance(one, Rejected) else "page" for one in records]


def only(tmp_path: Path, block: bytes, **more: str) -> RawPage | Rejected:
    records, _ = read(
        tmp_path / "a.warc", record("response", block, "application/http; msgtype=response", **more)
    )
    assert len(records) == 1
    return records[0]
