"""The ranges of a file have together the pages of the file, each once and in order, whatever is damaged."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.crawl.input_formats import cut, read_pages
from answermill.indexing.crawl.raw_page import WHOLE, Range, RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import http, record

Read = tuple[list[RawPage | Rejected], Counter[str]]
NAMES = ["a.jsonl", "a.jsonl.gz", "a.tsv", "a.tsv.gz", "a.warc", "a.warc.gz", "a.warc.wet.gz", "a.parquet"]


def content(name: str, folder: Path) -> bytes:
    """A file of 40 pages and some other records."""
    texts = [f"This is page {n:03}. " * (1 + n % 7) for n in range(40)]
    if name == "a.parquet":
        table = pa.table({"id": list(map(str, range(40))), "text": texts})
        pq.write_table(table, folder / name, row_group_size=7)
        return (folder / name).read_bytes()

    if name.startswith("a.warc"):
        # A line of a page may look like the start of a record.
        bodies = [f"{text}\nWARC/1.0\r\n{text}".encode() for text in texts]
        if "wet" in name:
            pages = [record("conversion", body, "text/plain") for body in bodies]
        else:
            pages = [record("response", http(body)) for body in bodies]
        records = [b for page in pages for b in (record("request", b"GET /"), page)]
    elif name.startswith("a.tsv"):
        rows = [f"{n}\t{text}\tT\n".encode() for n, text in enumerate(texts)]
        records = [b"id\ttext\ttitle\n", *rows]
    else:
        records = [json.dumps({"id": str(n), "text": text}).encode() + b"\n" for n, text in enumerate(texts)]
        records.insert(9, b"\n\n")

    members = records if "warc" in name else [b"".join(records[:25]), b"".join(records[25:])]
    return b"".join(map(gzip.compress, members)) if name.endswith(".gz") else b"".join(records)


def read(path: Path, ranges: list[Range]) -> Read:
    skipped: Counter[str] = Counter()
    return [page for within in ranges for page in read_pages(path, "in", skipped, within)], skipped


@pytest.mark.parametrize("name", NAMES)
def test_the_ranges_of_a_file_have_its_pages_each_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content(name, tmp_path))
    whole = read(path, [WHOLE])
    assert sum(isinstance(page, RawPage) for page in whole[0]) == 40
    for parts in range(1, 9):
        ranges = cut(path, parts)
        assert read(path, ranges) == whole
        filled = sum(bool(read(path, [within])[0]) for within in ranges)
        assert filled == parts or (name == "a.parquet" and filled >= min(parts, 4))


@given(
    name=st.sampled_from(sorted({*NAMES} - {"a.tsv.gz", "a.parquet"})),
    damage=st.floats(0, 1),
    parts=st.integers(2, 5),
    edge=st.integers(0, 400),
)
def test_damage_gives_the_same_rejects_in_whatever_range_it_is(
    tmp_path_factory: pytest.TempPathFactory, name: str, damage: float, parts: int, edge: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = bytearray(content(name, folder))
    place = 40 + int(damage * (len(whole) - 48))  # behind the head, which tells the format
    whole[place : place + 3] = b"\0\0\0"
    (folder / name).write_bytes(whole)
    middle = min(len(whole) - 1, place + edge - 200)
    at_the_damage = [Range(0, max(1, middle)), Range(max(1, middle), None)]
    for ranges in (cut(folder / name, parts), at_the_damage):
        assert read(folder / name, ranges) == read(folder / name, [WHOLE])


@pytest.mark.parametrize("size", [0, 1, 30])
def test_a_truncated_file_has_one_reject_for_its_end(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content(path.name, tmp_path)[: -20 - size])
    whole = read(path, [WHOLE])
    assert [page.reason for page in whole[0] if isinstance(page, Rejected)] == ["broken_record"]
    assert read(path, cut(path, 5)) == whole


def test_a_file_that_is_refused_is_one_reject(tmp_path: Path) -> None:
    for name, start in (("a.warc", b"filedesc://"), ("b.parquet", b"PAR1"), ("c.jsonl", b"")):
        (tmp_path / name).write_bytes(start + b"\n" * 50)
        whole = read(tmp_path / name, [WHOLE])
        assert len(whole[0]) == 1 and read(tmp_path / name, cut(tmp_path / name, 3)) == whole
