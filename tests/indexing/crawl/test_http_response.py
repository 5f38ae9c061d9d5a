from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from fastwarc.stream_io import BrotliWriter

from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import HTML, http, only, outcomes, read, record

_SMALL = zlib.compressobj(wbits=9)
SMALL_WINDOW = _SMALL.compress(HTML) + _SMALL.flush()


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
        ("gzip", gzip.compress(HTML[:9], mtime=0) + gzip.compress(HTML[9:], mtime=0)),
        ("gzip", b"".join(gzip.compress(bytes([byte]), mtime=0) for byte in HTML)),
        ("gzip", gzip.compress(HTML, mtime=0) + b"\0\0 behind it"),
        ("gzip", gzip.compress(HTML[:9], mtime=0) + bytes(9) + gzip.compress(HTML[9:], mtime=0)),
        ("deflate", SMALL_WINDOW),
        ("deflate", gzip.compress(HTML, mtime=0)),
        ("GZip;q=1", gzip.compress(HTML, mtime=0)),
        ("gzip, gzip", gzip.compress(gzip.compress(HTML, mtime=0), mtime=0)),
        ("zstd", bytes(pa.compress(HTML, codec="zstd", asbytes=True))),
        ("zstd", b"\x50\x2a\x4d\x18\x04\0\0\0skip" + bytes(pa.compress(HTML, codec="zstd", asbytes=True))),
        ("gzip, none", gzip.compress(HTML, mtime=0)),
        ("utf-8,gzip", gzip.compress(HTML, mtime=0)),
    ],
)
def test_content_encodings_are_undone(tmp_path: Path, encoding: str, body: bytes) -> None:
    outcome = only(tmp_path, http(body, Content_Encoding=encoding))
    assert isinstance(outcome, RawPage) and outcome.body == HTML


@pytest.mark.parametrize(
    "body", [HTML, b"\xef\xbb\xbf" + HTML, b" \n" + HTML, HTML.decode().encode("utf-16")]
)
@pytest.mark.parametrize(
    "encoding", ["identity", "gzip", "br", "deflate", "zstd", "none", "utf-8", "text/html", "x"]
)
def test_a_page_that_its_crawler_has_unpacked_is_used_as_it_is(
    tmp_path: Path, encoding: str, body: bytes
) -> None:
    outcome = only(tmp_path, http(body, Content_Encoding=encoding))
    assert isinstance(outcome, RawPage) and outcome.body == body


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "none"])
@pytest.mark.parametrize("charset", ["utf-8", "latin-1"])
def test_so_is_a_page_that_begins_with_text(tmp_path: Path, encoding: str, charset: str) -> None:
    body = ("Ein größerer Text, der nicht gepackt ist. " * 9).encode(charset) + HTML
    outcome = only(tmp_path, http(body, Content_Encoding=encoding))
    assert isinstance(outcome, RawPage) and outcome.body == body


@pytest.mark.parametrize("lost", [1, 4, 8])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "chunked", "chunked, gzip"])
def test_a_coding_without_an_end_costs_no_page_whose_end_tag_is_there(
    tmp_path: Path, coding: str, lost: int
) -> None:
    whole = HTML + b"\n<!-- served by 3 -->\n"
    packed = zlib.compress(whole) if coding == "deflate" else gzip.compress(whole, mtime=0)
    transfer = {}
    if coding == "chunked":
        packed = whole
    elif coding != "deflate" or lost <= 4:  # its checksum has four bytes
        packed = packed[:-lost]
    if coding.startswith("chunked"):
        packed = b"%x\r\n%s\r\n" % (len(packed), packed)
        transfer = {"Transfer_Encoding": "chunked"}
    outcome = only(tmp_path, http(packed, Content_Encoding=coding.rpartition(" ")[2], **transfer))
    assert isinstance(outcome, RawPage) and outcome.body == whole

    cut = whole[:20]
    packed = zlib.compress(cut)[:-2] if coding == "deflate" else gzip.compress(cut, mtime=0)[:-2]
    packed = b"%x\r\n%s\r\n" % (len(cut), cut) if coding == "chunked" else packed
    outcome = only(tmp_path, http(packed, Content_Encoding=coding.rpartition(" ")[2], **transfer))
    assert isinstance(outcome, Rejected) and outcome.reason == "bad_encoding"


def test_comments_behind_an_end_tag_are_read_once(tmp_path: Path) -> None:
    # All ways to share 140 comments out would be tried otherwise, which never ends.
    body = b"<html></html>" + b"<!---->" * 140
    for end, kind in ((b"\n", RawPage), (b"x", Rejected)):
        packed = gzip.compress(body + end, mtime=0)[:-1]
        assert isinstance(only(tmp_path, http(packed, Content_Encoding="gzip")), kind)


@pytest.mark.parametrize("status", ["HTTP1.1 200 OK", "HTTP/1.0, 200 OK", "HTTP/h2 200", "ICY 200 OK"])
def test_a_status_line_of_any_version_is_read(tmp_path: Path, status: str) -> None:
    outcome = only(tmp_path, http().replace(b"HTTP/1.1 200 OK", status.encode()))
    assert isinstance(outcome, RawPage) and outcome.body == HTML


def test_the_charset_that_a_crawler_has_identified_is_only_likely(tmp_path: Path) -> None:
    identified = {"WARC_Identified_Payload_Type": "text/html; charset=Shift_JIS"}
    for header, charset, likely in (
        ("text/html", "", "Shift_JIS"),
        ("text/html; charset=utf-8", "utf-8", ""),
        ("text/html charset=koi8-r", "", "koi8-r"),
    ):
        outcome = only(tmp_path, http(content_type=header), **identified)
        assert isinstance(outcome, RawPage)
        assert (outcome.charset, outcome.likely_charset) == (charset, likely)


def test_a_date_that_is_no_iso_8601_is_read(tmp_path: Path) -> None:
    outcome = only(tmp_path, http(), WARC_Date="20090305153534")
    assert isinstance(outcome, RawPage) and outcome.date == "2009-03-05T15:35:34+00:00"


def test_a_gzip_transfer_coding_is_undone_below_the_chunks(tmp_path: Path) -> None:
    packed = gzip.compress(HTML, mtime=0)
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    outcome = only(tmp_path, http(body, Transfer_Encoding="gzip, Chunked"))
    assert isinstance(outcome, RawPage) and outcome.body == HTML


@pytest.mark.parametrize(
    "header",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\nContent-Type\t: text/html\r\n\r\n",
        b"http/1.1 200 OK\r\nTRANSFER-ENCODING:chunked\r\nContent-Type:text/html\r\n\r\n",
        b"HTTP/10.25 200\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\r\nHTTP/2\t 200 \nTransfer-Encoding: chunked\nContent-Type: text/html\n\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n  chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\nProxy-Agent: a\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_nothing_of_the_transport_is_left_in_a_page(tmp_path: Path, header: bytes) -> None:
    outcome = only(tmp_path, header + b"0000000%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML))
    assert isinstance(outcome, RawPage) and (outcome.body, outcome.content_type) == (HTML, "text/html")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("conversion", b"HTTP 404 errors explained"),
        ("conversion", b"HTTP/1.1 404 is what a server says"),
        ("resource", b"HTTP 404 errors explained"),
    ],
)
def test_a_text_that_begins_like_a_status_line_is_no_answer_of_a_server(
    tmp_path: Path, kind: str, text: bytes
) -> None:
    records, _ = read(tmp_path / "a.warc", record(kind, text, ""))
    assert isinstance(records[0], RawPage) and records[0].body == text


def test_a_record_without_a_type_that_holds_a_response_is_read_as_one(tmp_path: Path) -> None:
    records, _ = read(tmp_path / "a.warc", record("resource", http(), ""))
    assert isinstance(records[0], RawPage) and records[0].body == HTML


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML), HTML),
        (b"5;name=value\r\n<html\r\n3\r\n>ok\r\n0\r\nTrailer: x\r\n\r\n", b"<html>ok"),
        (b"\r\n5\r\n<html\r\n\r\n3\r\n>ok\r\n0\r\n\r\n", b"<html>ok"),
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
        (http(content_type="image/png"), "not_html", "image/png; ingest.media_types cannot name it"),
        (
            http(b"\x89PNG\r\n\x1a\n\0\0\0", content_type=""),
            "not_html",
            "image/png; ingest.media_types cannot name it",
        ),
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
        (
            http(gzip.compress(HTML) + gzip.compress(HTML)[:-9], Content_Encoding="gzip"),
            "bad_encoding",
            "gzip: ",
        ),
        (
            http(b"\x1f\x9d\x90" + bytes(300), Content_Encoding="compress"),
            "bad_encoding",
            "content encoding 'compress' is not read",
        ),
        (http(bytes(range(256)) * 2, Content_Encoding="br"), "bad_encoding", "br: "),
        (b"no http here", "broken_record", "no HTTP status"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html", "broken_record", "HTTP header without an end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "broken_record", "no HTTP status"),
        (http(status="101 Switching Protocols"), "http_status", "101"),
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
