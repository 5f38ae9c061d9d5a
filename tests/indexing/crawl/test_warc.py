from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import MAX_BODY, RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import HTML, http, only, outcomes, read, record


def page(n: int) -> bytes:
    noise = random.Random(n).randbytes(300).hex().encode()
    return record("response", http(b"<html>" + noise), WARC_Target_URI=f"http://example.com/{n}")


@pytest.mark.parametrize("suffix", ["a.warc", "a.warc.gz", "whole.warc.gz"])
def test_a_page_is_found_again_at_its_offset(tmp_path: Path, suffix: str) -> None:
    records = [
        record("warcinfo", b"software: x", "application/warc-fields"),
        *map(page, range(5)),
        record("request", b"GET / HTTP/1.1\r\n\r\n"),
    ]
    packed = [gzip.compress(r) for r in records] if suffix == "a.warc.gz" else records
    content = gzip.compress(b"".join(records)) if suffix == "whole.warc.gz" else b"".join(packed)
    pages_read, skipped = read(tmp_path / suffix, content)
    assert outcomes(pages_read) == ["page"] * 5

    assert skipped == {"warcinfo": 1, "request": 1}
    for n, one in enumerate(pages_read):
        assert isinstance(one, RawPage)
        assert (one.url, one.date, one.content_type) == (
            f"http://example.com/{n}",
            "2020-01-02T03:04:05Z",
            "text/html",
        )
        assert one.source_record == "<urn:uuid:1>" and one.body.startswith(b"<html>")
        assert one.source_offset == (0 if suffix == "whole.warc.gz" else sum(map(len, packed[: n + 1])))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pages=st.integers(2, 6), data=st.data(), lost=st.sampled_from(["byte", "middle", "end"]))
def test_a_corrupt_gzip_member_costs_one_page(
    tmp_path: Path, pages: int, data: st.DataObject, lost: str
) -> None:
    members = [gzip.compress(page(n), mtime=0) for n in range(pages)]
    broken = data.draw(st.integers(0, pages - 1))
    member = bytearray(members[broken])

    # Not in the time and system of its header and the last bits before its checksum: nothing reads them.
    if lost == "byte":
        position = data.draw(st.one_of(st.integers(0, 2), st.integers(10, len(member) - 10)))
        member[position] ^= 1 << data.draw(st.integers(0, 7))
    elif lost == "middle":
        position = data.draw(st.integers(20, len(member) - 30))
        del member[position : position + data.draw(st.integers(1, 25))]
    else:
        del member[data.draw(st.integers(1, len(member) - 1)) :]

    members[broken] = bytes(member)
    records, _ = read(tmp_path / "a.warc.gz", b"".join(members))
    assert outcomes(records) == ["page"] * broken + ["broken_record"] + ["page"] * (pages - 1 - broken)
    assert records[broken].source_offset == sum(map(len, members[:broken]))
    assert [one.url for one in records if isinstance(one, RawPage)] == [
        f"http://example.com/{n}" for n in range(pages) if n != broken
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400), compressed=st.booleans(), before=st.integers(0, 1))
@example(content=b"WARC/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n", compressed=False, before=1)
@example(content=b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n", compressed=True, before=0)
def test_any_bytes_are_read_to_their_end(
    tmp_path: Path, content: bytes, compressed: bool, before: int
) -> None:
    first = page(0) * before
    records, _ = read(tmp_path / "a.warc", gzip.compress(first) + content if compressed else first + content)
    assert outcomes(records)[:before] == ["page"] * before


@pytest.mark.parametrize("claimed", [5, 100_000, 10**15, "very long", "-3", ""])
def test_a_wrong_length_costs_one_record(tmp_path: Path, claimed: object) -> None:
    wrong = record("response", http(), Content_Length=claimed)
    for content in (page(0) + wrong + page(2), b"".join(map(gzip.compress, (page(0), wrong, page(2))))):
        records, _ = read(tmp_path / "a.warc", content)
        assert outcomes(records) == ["page", "broken_record", "page"]
        assert "Content-Length" in records[1].detail and records[1].url == "http://example.com/"  # type: ignore[union-attr]


def test_a_truncated_file_keeps_its_whole_records(tmp_path: Path) -> None:
    plain = page(0) + page(1)
    packed = gzip.compress(page(0)) + gzip.compress(page(1))
    for content in (plain[:-60], packed[:-60]):
        records, _ = read(tmp_path / "a.warc", content)
        assert outcomes(records) == ["page", "broken_record"]


def test_garbage_after_a_record_does_not_cost_the_record(tmp_path: Path) -> None:
    records, _ = read(tmp_path / "a.warc", page(0) + b"The monkeys are coming!\r\n" * 9 + page(1))
    assert outcomes(records) == ["page", "broken_record", "page"]
    records, _ = read(tmp_path / "a.warc.gz", gzip.compress(page(0)) + b"\0" * 600 + gzip.compress(page(1)))
    assert outcomes(records) == ["page", "page"]  # padding


def test_a_bomb_is_refused_in_flat_memory(tmp_path: Path) -> None:
    size = 300_000_000
    inflated = record("response", b"", Content_Length=size + 44)[:-4] + http()[:44]
    packer = zlib.compressobj(9, wbits=31)
    bomb = (
        packer.compress(inflated)
        + b"".join(packer.compress(bytes(10_000_000)) for _ in range(30))
        + packer.flush()
    )
    inner = gzip.compress(record("response", http(gzip.compress(bytes(30_000_000)), Content_Encoding="gzip")))

    path = tmp_path / "a.warc.gz"
    path.write_bytes(bomb + inner + gzip.compress(page(2)))
    assert path.stat().st_size < 500_000
    tracemalloc.start()
    records = list(read_pages(path, "in", Counter()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcomes(records) == ["too_large", "too_large", "page"]
    assert peak < 60_000_000


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_records_in_a_record_that_is_too_long_to_be_held_are_its_content(
    tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    """A WARC file in a WARC file; but where the length is wrong, they are records of their own."""
    content = page(1) + page(2) + bytes(MAX_BODY + 100_000)
    inner = record("resource", content, "application/warc")
    wrong = record("resource", content, "application/warc", Content_Length=len(content) - 1_000)
    for outer, expected in (
        (inner, ["page", "too_large", "page"]),
        (wrong, ["page", "broken_record", "page", "broken_record", "page"]),
    ):
        together = tmp_path / "together"
        together.write_bytes(packed(page(0) + outer + page(3)))
        assert outcomes(list(read_pages(together, "in", Counter()))) == expected
        apart = tmp_path / "apart"
        apart.write_bytes(packed(page(0)) + packed(outer) + packed(page(3)))
        assert outcomes(list(read_pages(apart, "in", Counter()))) == expected


def test_a_page_that_the_crawler_cut_is_refused_as_truncated(tmp_path: Path) -> None:
    outcome = only(tmp_path, http(), WARC_Truncated="length")
    assert isinstance(outcome, Rejected) and (outcome.reason, outcome.detail) == (
        "truncated",
        "WARC-Truncated: length",
    )


def test_resources_and_wet_text_are_pages(tmp_path: Path) -> None:
    resource = record("resource", HTML, "text/html; charset=utf-8")
    wet = record("conversion", "Ünï".encode(), "text/plain")
    records, skipped = read(
        tmp_path / "a.warc.wet", resource + wet + record("metadata", b"{}", "application/json")
    )
    assert [(one.content_type, one.body) for one in records if isinstance(one, RawPage)] == [
        ("text/html", HTML),
        ("text/plain", "Ünï".encode()),
    ]
    assert skipped == {"metadata": 1}


def test_a_segment_of_a_record_is_no_page(tmp_path: Path) -> None:
    first = record("response", http(), WARC_Segment_Number=1)
    rest = record("continuation", b"the rest", WARC_Segment_Number=2)
    outcomes_, skipped = read(tmp_path / "a.warc", first + rest)
    assert outcomes(outcomes_) == ["truncated"] and skipped["continuation"] == 1
