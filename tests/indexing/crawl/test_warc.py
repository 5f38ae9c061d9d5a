from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastwarc.stream_io import BrotliWriter
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from indexing.crawl import raw_page
from indexing.crawl.raw_page import RawPage
from indexing.crawl.warc import read_pages
from schemas.corpus import Rejected

DATA = Path(__file__).parents[3].parent / "shared" / "data"
HTML = b"<html><title>t</title><p>Hello</p></html>"


def record(kind: str, block: bytes, content_type: str = "application/http; msgtype=response", **more: object) -> bytes:
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


def brotli(content: bytes) -> bytes:
    packed = io.BytesIO()
    writer = BrotliWriter(packed)
    writer.write(content)
    writer.close()
    return packed.getvalue()


def page(n: int) -> bytes:
    noise = random.Random(n).randbytes(300).hex().encode()
    return record("response", http(b"<html>" + noise), WARC_Target_URI=f"http://example.com/{n}")


def read(path: Path, content: bytes) -> tuple[list[RawPage | Rejected], Counter[str]]:
    path.write_bytes(content)
    skipped: Counter[str] = Counter()
    return list(read_pages(path, "in", skipped)), skipped


def outcomes(found: Sequence[RawPage | Rejected]) -> list[str]:
    return [one.reason if isinstance(one, Rejected) else "page" for one in found]


def only(tmp_path: Path, block: bytes, **more: str) -> RawPage | Rejected:
    found, _ = read(tmp_path / "a.warc", record("response", block, "application/http; msgtype=response", **more))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("suffix", ["a.warc", "a.warc.gz", "whole.warc.gz"])
def test_a_page_is_found_again_at_its_offset(tmp_path: Path, suffix: str) -> None:
    records = [
        record("warcinfo", b"software: x", "application/warc-fields"),
        *map(page, range(5)),
        record("request", b"GET / HTTP/1.1\r\n\r\n"),
    ]
    packed = [gzip.compress(r) for r in records] if suffix == "a.warc.gz" else records
    content = gzip.compress(b"".join(records)) if suffix == "whole.warc.gz" else b"".join(packed)
    found, skipped = read(tmp_path / suffix, content)
    assert outcomes(found) == ["page"] * 5
    assert skipped == {"warcinfo": 1, "request": 1}
    for n, one in enumerate(found):
        assert isinstance(one, RawPage)
        assert (one.url, one.date, one.content_type) == (f"http://example.com/{n}", "2020-01-02T03:04:05Z", "text/html")
        assert one.source_record == "<urn:uuid:1>" and one.body.startswith(b"<html>")
        assert one.source_offset == (0 if suffix == "whole.warc.gz" else sum(map(len, packed[: n + 1])))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pages=st.integers(2, 6), data=st.data(), lost=st.sampled_from(["byte", "middle", "end"]))
def test_a_corrupt_gzip_member_costs_one_page(tmp_path: Path, pages: int, data: st.DataObject, lost: str) -> None:
    members = [gzip.compress(page(n), mtime=0) for n in range(pages)]
    broken = data.draw(st.integers(0, pages - 1))
    member = bytearray(members[broken])
    if lost == "byte":  # not in the time and system of its header and the last bits before its checksum: nothing reads them
        at = data.draw(st.one_of(st.integers(0, 2), st.integers(10, len(member) - 10)))
        member[at] ^= 1 << data.draw(st.integers(0, 7))
    elif lost == "middle":
        at = data.draw(st.integers(20, len(member) - 30))
        del member[at : at + data.draw(st.integers(1, 25))]
    else:
        del member[data.draw(st.integers(1, len(member) - 1)) :]
    members[broken] = bytes(member)
    found, _ = read(tmp_path / "a.warc.gz", b"".join(members))
    assert outcomes(found) == ["page"] * broken + ["broken_record"] + ["page"] * (pages - 1 - broken)
    assert found[broken].source_offset == sum(map(len, members[:broken]))
    assert [one.url for one in found if isinstance(one, RawPage)] == [
        f"http://example.com/{n}" for n in range(pages) if n != broken
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400), compressed=st.booleans(), before=st.integers(0, 1))
@example(content=b"WARC/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n", compressed=False, before=1)
@example(content=b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n", compressed=True, before=0)
def test_any_bytes_are_read_to_their_end(tmp_path: Path, content: bytes, compressed: bool, before: int) -> None:
    first = page(0) * before
    found, _ = read(tmp_path / "a.warc", gzip.compress(first) + content if compressed else first + content)
    assert outcomes(found)[:before] == ["page"] * before


@pytest.mark.parametrize("claimed", [5, 100_000, 10**15, "very long", "-3", ""])
def test_a_wrong_length_costs_one_record(tmp_path: Path, claimed: object) -> None:
    wrong = record("response", http(), Content_Length=claimed)
    for content in (page(0) + wrong + page(2), b"".join(map(gzip.compress, (page(0), wrong, page(2))))):
        found, _ = read(tmp_path / "a.warc", content)
        assert outcomes(found) == ["page", "broken_record", "page"]
        assert "Content-Length" in found[1].detail and found[1].url == "http://example.com/"  # type: ignore[union-attr]


def test_a_truncated_file_keeps_its_whole_records(tmp_path: Path) -> None:
    plain = page(0) + page(1)
    packed = gzip.compress(page(0)) + gzip.compress(page(1))
    for content in (plain[:-60], packed[:-60]):
        found, _ = read(tmp_path / "a.warc", content)
        assert outcomes(found) == ["page", "broken_record"]


def test_garbage_after_a_record_does_not_cost_the_record(tmp_path: Path) -> None:
    found, _ = read(tmp_path / "a.warc", page(0) + b"The monkeys are coming!\r\n" * 9 + page(1))
    assert outcomes(found) == ["page", "broken_record", "page"]
    found, _ = read(tmp_path / "a.warc.gz", gzip.compress(page(0)) + b"\0" * 600 + gzip.compress(page(1)))
    assert outcomes(found) == ["page", "page"]  # padding


def test_a_bomb_is_refused_in_flat_memory(tmp_path: Path) -> None:
    size = 300_000_000
    inflated = record("response", b"", Content_Length=size + 44)[:-4] + http()[:44]
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(inflated) + b"".join(packer.compress(bytes(10_000_000)) for _ in range(30)) + packer.flush()
    inner = gzip.compress(record("response", http(gzip.compress(bytes(30_000_000)), Content_Encoding="gzip")))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(bomb + inner + gzip.compress(page(2)))
    assert path.stat().st_size < 500_000
    tracemalloc.start()
    found = list(read_pages(path, "in", Counter()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcomes(found) == ["too_large", "too_large", "page"]
    assert peak < 60_000_000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(HTML)),
        ("x-gzip", gzip.compress(HTML)),
        ("deflate", zlib.compress(HTML)),
        ("deflate", zlib.compress(HTML)[2:-4]),
        ("br", brotli(HTML)),
        ("gzip, br", brotli(gzip.compress(HTML))),
        ("identity", HTML),
        ("gzip", HTML),  # stored decoded, under the server's header
        ("br", HTML),
        ("deflate", HTML),
    ],
)
def test_content_encodings_are_undone(tmp_path: Path, encoding: str, body: bytes) -> None:
    found = only(tmp_path, http(body, Content_Encoding=encoding))
    assert isinstance(found, RawPage) and found.body == HTML


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
    found = only(tmp_path, http(body, Transfer_Encoding="chunked"))
    if expected is None:
        assert isinstance(found, Rejected) and found.reason == "bad_encoding" and found.detail.startswith("chunked: ")
    else:
        assert isinstance(found, RawPage) and found.body == expected


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
        (http(gzip.compress(HTML)[:-9], Content_Encoding="gzip"), "bad_encoding", "gzip: ends after "),
        (http(gzip.compress(HTML)[:20] + b"x" * 30, Content_Encoding="gzip"), "bad_encoding", "gzip: "),
        (http(Content_Encoding="zstd"), "bad_encoding", "unknown content encoding 'zstd'"),
        (b"no http here", "broken_record", "no HTTP status"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html", "broken_record", "HTTP header without an end"),
    ],
)
def test_what_is_no_page_says_why(tmp_path: Path, block: bytes, reason: str, detail: str) -> None:
    found = only(tmp_path, block)
    assert outcomes([found]) == [reason]
    assert reason == "page" or (isinstance(found, Rejected) and found.detail.startswith(detail))


def test_a_page_that_the_crawler_cut_is_refused_as_truncated(tmp_path: Path) -> None:
    found = only(tmp_path, http(), WARC_Truncated="length")
    assert isinstance(found, Rejected) and (found.reason, found.detail) == ("truncated", "WARC-Truncated: length")


def test_the_charset_is_the_http_headers_and_a_bad_date_is_no_date(tmp_path: Path) -> None:
    found = only(tmp_path, http(content_type='text/html; Charset="Windows-1251"'), WARC_Date="2009-03-67T15:35:34-0700")
    assert isinstance(found, RawPage) and (found.charset, found.date) == ("Windows-1251", "")


def test_resources_and_wet_text_are_pages(tmp_path: Path) -> None:
    resource = record("resource", HTML, "text/html; charset=utf-8")
    wet = record("conversion", "Ünï".encode(), "text/plain")
    found, skipped = read(tmp_path / "a.warc.wet", resource + wet + record("metadata", b"{}", "application/json"))
    assert [(one.content_type, one.body) for one in found if isinstance(one, RawPage)] == [
        ("text/html", HTML),
        ("text/plain", "Ünï".encode()),
    ]
    assert skipped == {"metadata": 1}


@pytest.mark.parametrize("suffix", ["a.jsonl", "a.jsonl.gz"])
def test_lines_of_json_are_pages(tmp_path: Path, suffix: str) -> None:
    lines = [
        {"id": 7, "text": "one", "title": "T", "url": "http://a.example/", "date": "2020-01-02", "language": "en"},
        {"_id": "b", "contents": "two \ud800"},
        {"doc_id": "c", "body": "three", "title": None, "date": "yesterday"},
        {"id": "d", "title": "no text"},
        {"id": "e", "text": 5},
        [1],
    ]
    text = (
        "\ufeff"
        + "\n".join(map(json.dumps, lines))
        + '\n\n{"id": \n'
        + "[" * 100_000
        + '\n{"text": "'
        + "x" * 11_000_000
        + '"}\n{"text": "last"}'
    )
    content = text.encode()
    found, _ = read(
        tmp_path / suffix, gzip.compress(content[:200]) + gzip.compress(content[200:]) if "gz" in suffix else content
    )
    assert outcomes(found) == ["page"] * 3 + ["missing_text"] * 2 + ["broken_json"] * 3 + ["too_large", "page"]
    pages = [one for one in found if isinstance(one, RawPage)]
    assert [(one.doc_id, one.text, one.title, one.date) for one in pages] == [
        ("7", "one", "T", "2020-01-02"),
        ("b", "two \ufffd", "", ""),
        ("c", "three", "", ""),
        ("", "last", "", ""),
    ]
    assert pages[0].source_record == "7" and pages[0].language == "en"
    assert all(content[one.source_offset :].lstrip(b"\xef\xbb\xbf")[:1] in b"{[" for one in found)


def test_a_broken_member_of_jsonl_costs_its_lines_only(tmp_path: Path) -> None:
    members = [
        gzip.compress(json.dumps({"id": n, "text": random.Random(n).randbytes(200).hex()}).encode() + b"\n") for n in range(3)
    ]
    members[1] = members[1][:100] + b"?" + members[1][101:]
    found, _ = read(tmp_path / "a.jsonl.gz", b"".join(members))
    assert outcomes(found) == ["page", "broken_record", "page"]
    assert [one.doc_id for one in found if isinstance(one, RawPage)] == ["0", "2"]


def test_dpr_tsv_and_parquet_are_read(tmp_path: Path) -> None:
    found, _ = read(tmp_path / "a.tsv", b'id\ttext\ttitle\n1\t"He said ""no""."\tAaron\n2\ttoo few\n')
    assert outcomes(found) == ["page", "broken_json"]
    assert isinstance(found[0], RawPage) and (found[0].doc_id, found[0].text, found[0].title) == ("1", 'He said "no".', "Aaron")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "text": ["one", None], "other": [0, 0]}), path)
    found = list(read_pages(path, "in", Counter()))
    assert outcomes(found) == ["page", "missing_text"]
    assert [one.source_offset for one in found] == [0, 1]
    path.write_bytes(path.read_bytes()[:-30])
    assert outcomes(list(read_pages(path, "in", Counter()))) == ["broken_record"]


@pytest.mark.parametrize("magic", [b"filedesc://a.arc 0.0.0.0", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"])
def test_a_known_format_that_is_not_read_is_one_reject(tmp_path: Path, magic: bytes) -> None:
    found, _ = read(tmp_path / "a.warc", magic + b"x" * 99)
    assert outcomes(found) == ["unsupported_format"]


def test_an_unknown_format_is_refused_and_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: unknown format \(starts with b'Hello'\); known: WARC"):
        read(tmp_path / "a.txt", b"Hello")
    for name in ("a.warc", "a.txt", "a.jsonl"):
        assert read(tmp_path / name, b"") == ([], Counter())
        assert read(tmp_path / f"{name}.gz", gzip.compress(b"")) == ([], Counter())


@pytest.mark.skipif(not DATA.exists(), reason="the measuring data is not beside this checkout")
@pytest.mark.parametrize("folder", ["warc", "warc-odd"])
def test_every_real_file_is_read_to_its_end(folder: str) -> None:
    counts: Counter[str] = Counter()
    refused = []
    for path in sorted((DATA / folder).iterdir()):
        if path.suffix in (".md", ".tsv"):
            continue
        try:
            counts.update(outcomes(list(read_pages(path, path.name, Counter()))))
        except ValueError as e:
            assert "unknown format" in str(e)
            refused.append(path.name.split("__")[-1])
    if folder == "warc":
        assert counts == {"page": 337, "not_html": 504, "http_status": 151, "broken_record": 4}
        assert refused == []
    else:
        assert counts["page"] == 269 and counts["unsupported_format"] == 15
        assert refused == ["abcd.gz", "double-single-inflate-error.gz", "hi.gz", "invalid-arcfile-record-then-garbage.arc"]


def test_the_limits_are_what_the_documentation_says() -> None:
    assert raw_page.MAX_BODY == 10_000_000
