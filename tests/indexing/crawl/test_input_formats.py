from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.indexing.crawl import raw_page
from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from tests.indexing.crawl.warc_files import outcomes, read

DATA = Path(__file__).parents[3].parent / "shared" / "data"


@pytest.mark.parametrize("suffix", ["a.jsonl", "a.jsonl.gz"])
def test_lines_of_json_are_pages(tmp_path: Path, suffix: str) -> None:
    lines = [
        {
            "id": 7,
            "text": "one",
            "title": "T",
            "url": "http://a.example/",
            "date": "2020-01-02",
            "language": "en",
        },
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
    outcomes_read, _ = read(
        tmp_path / suffix,
        gzip.compress(content[:200]) + gzip.compress(content[200:]) if "gz" in suffix else content,
    )
    assert outcomes(outcomes_read) == ["page"] * 3 + ["missing_text"] * 2 + ["broken_json"] * 3 + [
        "too_large",
        "page",
    ]

    pages = [one for one in outcomes_read if isinstance(one, RawPage)]
    assert [(one.doc_id, one.text, one.title, one.date) for one in pages] == [
        ("7", "one", "T", "2020-01-02"),
        ("b", "two \ufffd", "", ""),
        ("c", "three", "", ""),
        ("", "last", "", ""),
    ]
    assert pages[0].source_record == "7" and pages[0].language == "en"
    assert all(content[one.source_offset :].lstrip(b"\xef\xbb\xbf")[:1] in b"{[" for one in outcomes_read)


def test_a_broken_member_of_jsonl_costs_its_lines_only(tmp_path: Path) -> None:
    members = [
        gzip.compress(json.dumps({"id": n, "text": random.Random(n).randbytes(200).hex()}).encode() + b"\n")
        for n in range(3)
    ]
    members[1] = members[1][:100] + b"?" + members[1][101:]
    records, _ = read(tmp_path / "a.jsonl.gz", b"".join(members))
    assert outcomes(records) == ["page", "broken_record", "page"]
    assert [one.doc_id for one in records if isinstance(one, RawPage)] == ["0", "2"]


def test_a_text_of_a_tsv_may_be_as_long_as_any_other(tmp_path: Path) -> None:
    text = "word " * 40_000
    records, _ = read(tmp_path / "a.tsv", f"id\ttext\ttitle\n1\t{text}\tT\n".encode())
    assert [page.text for page in records if isinstance(page, RawPage)] == [text]


def test_dpr_tsv_and_parquet_are_read(tmp_path: Path) -> None:
    records, _ = read(tmp_path / "a.tsv", b'id\ttext\ttitle\n1\t"He said ""no""."\tAaron\n2\ttoo few\n')
    assert outcomes(records) == ["page", "broken_json"]
    assert isinstance(records[0], RawPage) and (records[0].doc_id, records[0].text, records[0].title) == (
        "1",
        'He said "no".',
        "Aaron",
    )
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "text": ["one", None], "other": [0, 0]}), path)

    records = list(read_pages(path, "in", Counter()))
    assert outcomes(records) == ["page", "missing_text"]
    assert [one.source_offset for one in records] == [0, 1]
    path.write_bytes(path.read_bytes()[:-30])
    assert outcomes(list(read_pages(path, "in", Counter()))) == ["broken_record"]


@pytest.mark.parametrize(
    "magic", [b"filedesc://a.arc 0.0.0.0", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"]
)
def test_a_known_format_that_is_not_read_is_one_reject(tmp_path: Path, magic: bytes) -> None:
    records, _ = read(tmp_path / "a.warc", magic + b"x" * 99)
    assert outcomes(records) == ["unsupported_format"]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "x.warc.gz.md5"):
        with pytest.raises(ValueError, match=r"in: unknown format \(starts with b'Hello'\); known: WARC"):
            read(tmp_path / name, b"Hello")


@pytest.mark.parametrize("name", ["a.warc", "a.txt", "a.jsonl"])
def test_a_file_without_a_record_is_one_reject(tmp_path: Path, name: str) -> None:
    for path, content in ((tmp_path / name, b""), (tmp_path / f"{name}.gz", gzip.compress(b""))):
        rejects, skipped = read(path, content)
        assert outcomes(rejects) == ["empty_file"] and not skipped
        assert rejects[0].source_file == "in"


def test_a_file_of_blank_lines_or_of_no_row_is_empty_and_one_of_other_records_is_not(tmp_path: Path) -> None:
    assert outcomes(read(tmp_path / "a.jsonl", b"\n \n")[0]) == ["empty_file"]
    assert outcomes(read(tmp_path / "a.tsv", b"id\ttext\ttitle\n")[0]) == ["empty_file"]
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert outcomes(list(read_pages(tmp_path / "a.parquet", "in", Counter()))) == ["empty_file"]
    info = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    assert read(tmp_path / "a.warc", info) == ([], Counter(warcinfo=1))


def test_a_byte_order_mark_does_not_hide_a_table(tmp_path: Path) -> None:
    pages, _ = read(tmp_path / "a.tsv", b"\xef\xbb\xbfid\ttext\ttitle\n1\tone\tT\n")
    assert isinstance(pages[0], RawPage) and (pages[0].doc_id, pages[0].text) == ("1", "one")


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
        assert counts == {"page": 340, "not_html": 501, "http_status": 151, "broken_record": 4}
        assert refused == []
    else:
        assert counts["page"] == 272 and counts["unsupported_format"] == 15
        assert refused == [
            "abcd.gz",
            "double-single-inflate-error.gz",
            "hi.gz",
            "invalid-arcfile-record-then-garbage.arc",
        ]


def test_the_limits_are_what_the_documentation_says() -> None:
    assert raw_page.MAX_BODY == 10_000_000
