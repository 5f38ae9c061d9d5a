from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import pytest
from fastwarc.stream_io import BrotliWriter

from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import HTML, http, only, outcomes


def brotli(content: bytes) -> bytes:
    packed = io.BytesIO()
    writer = BrotliWriter(packed)
    writer.write(content)
    writer.close()
    return packed.getvalue()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(HTML, mtime=0)),
        ("x-gzip", gzip.compress(HTML, mtime=0)),
        ("deflate", zlib.compress(HTML)),
        ("deflate", zlib.compress(HTML)[2:-4]),
        ("br", brotli(HTML)),
        ("gzip, br", brotli(gzip.compress(HTML, mtime=0))),
        ("identity", HTML),
        ("gzip", HTML),  # stored decoded, under the server's header
        ("br", HTML),
        ("deflate", HTML),
    ],
)
def test_content_encodings_are_undone(tmp_path: Path, encoding: str, body: bytes) -> None:
    outcome = only(tmp_path, http(body, Content_Encoding=encoding))
    assert isinstance(outcome, RawPage) and outcome.body == HTML


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML), HTML),
        (b"5;name=value\r\n<html\r\n3\r\n>ok\r\n0\r\nTrailer: x\r\n\r\n", b"<html>ok"),
        (HTML, HTML),
        (b"5\r\n<html\r\n30\r\n>ok\r\n0\r\n\r\n", None),
        (b"5\r\n<html\r\nzz\r\n", None),
    ],
)
def test_chunked_bodies_are_joined(tmp_path: Path, body: bytes, expected: bytes | None) -> None:
    outcome = only(tmp_path, http(body, Transfer_Encoding="chunked"))
    if expected is None:
        assert (
            isinstance(outcome, Rejected)
            and outcome.reason == "bad_encoding"
            and outcome.detail.startswith("chunked: ")
        )
    else:
        assert isinstance(outcome, RawPage) and outcome.body == expected


@pytest.mark.parametrize(
    ("block", "reason", "detail"),
    [
        (http(status="404 Not Found"), "http_status", "404"),
        (http(status="301"), "http_status", "301"),
        (http(content_type="image/png"), "not_html", "image/png"),
        (http(b"\x89PNG\r\n\x1a\n\0\0\0", content_type=""), "not_html", "image/png"),
        (http(b""), "page", ""),
        (http(content_type=""), "page", ""),
        (http(content_type="application/octet-stream"), "page", ""),
        (http(content_type="TEXT/HTML; charset=x"), "page", ""),
        (http(status="200"), "page", ""),
        (http().replace(b"\r\n", b"\n"), "page", ""),
        (
            http(gzip.compress(HTML, mtime=0)[:-9], Content_Encoding="gzip"),
            "bad_encoding",
            "gzip: ends after ",
        ),
        (
            http(gzip.compress(HTML, mtime=0)[:20] + b"x" * 30, Content_Encoding="gzip"),
            "bad_encoding",
            "gzip: ",
        ),
        (http(Content_Encoding="zstd"), "bad_encoding", "unknown content encoding 'zstd'"),
        (b"no http here", "broken_record", "no HTTP status"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html", "broken_record", "HTTP header without an end"),
    ],
)
def test_what_is_no_page_says_why(tmp_path: Path, block: bytes, reason: str, detail: str) -> None:
    outcome = only(tmp_path, block)
    assert outcomes([outcome]) == [reason]
    assert reason == "page" or (isinstance(outcome, Rejected) and outcome.detail.startswith(detail))


def test_the_charset_is_the_http_headers_and_a_bad_date_is_no_date(tmp_path: Path) -> None:
    outcome = only(
        tmp_path, http(content_type='text/html; Charset="Windows-1251"'), WARC_Date="2009-03-67T15:35:34-0700"
    )
    assert isinstance(outcome, RawPage) and (outcome.charset, outcome.date) == ("Windows-1251", "")
