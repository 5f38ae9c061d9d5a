"""Each row that a Parquet file's footer counts becomes a page or a reject, whatever is broken in the file."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import outcomes


def pages_of(path: Path) -> list[RawPage | Rejected]:
    return list(read_pages(path, "in", Counter()))


def three_groups(path: Path, compression: str = "none") -> pq.FileMetaData:
    texts = [f"This is page {n:03}." for n in range(30)]
    table = pa.table({"id": [f"d{n:03}" for n in range(30)], "text": texts})
    pq.write_table(
        table, path, row_group_size=10, compression=compression, use_dictionary=False, write_statistics=False
    )
    return pq.ParquetFile(path).metadata


def test_a_text_that_is_not_utf8_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    three_groups(path)
    path.write_bytes(path.read_bytes().replace(b"page 013.", b"page \xff13."))
    pages = pages_of(path)
    assert outcomes(pages) == ["page"] * 13 + ["broken_record"] + ["page"] * 16
    lost = pages[13]
    assert (
        isinstance(lost, Rejected)
        and lost.source_offset == 13
        and lost.detail.startswith("text: 'utf-8' codec")
    )


def test_bytes_are_the_text_that_they_are_even_where_an_id_of_bytes_would_be_a_uuid(tmp_path: Path) -> None:
    text = "\x1cSixteen bytes 1."
    table = pa.table({"id": ["a"], "text": pa.array([text.encode()], pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert [page.text for page in pages_of(tmp_path / "a.parquet") if isinstance(page, RawPage)] == [text]


def test_a_file_with_two_columns_of_one_name_is_one_reject_that_names_it(tmp_path: Path) -> None:
    pq.write_table(pa.table([["a"], ["one"], ["two"]], names=["id", "text", "text"]), tmp_path / "a.parquet")
    (refused,) = pages_of(tmp_path / "a.parquet")
    assert isinstance(refused, Rejected) and refused.reason == "broken_record"
    assert refused.detail == "two columns have the name text, in all 1 rows"


@pytest.mark.parametrize("value", [9 * 10**14, -(9 * 10**14)])
def test_a_date_that_no_calendar_has_costs_the_date_and_not_the_row(tmp_path: Path, value: int) -> None:
    dates = pa.array([0, value, 86_400], pa.timestamp("s"))
    pq.write_table(
        pa.table({"id": ["a", "b", "c"], "text": ["one", "two", "three"], "date": dates}),
        tmp_path / "a.parquet",
    )
    pages = pages_of(tmp_path / "a.parquet")
    dates_read = [page.date for page in pages if isinstance(page, RawPage)]
    assert dates_read == ["1970-01-01T00:00:00", "", "1970-01-02T00:00:00"]


ZONES = "tzutc() tzlocal() GMT+2 UTC+1 CEST +0100 UTC+01:00 Z local dateutil//usr/share Europe/Paris"


@pytest.mark.parametrize("zone", ZONES.split())
def test_a_time_in_any_zone_is_read(tmp_path: Path, zone: str) -> None:
    dates = pa.array([1_709_633_472, None], pa.timestamp("s", zone))
    pq.write_table(
        pa.table({"id": [1.0, None], "text": ["one", "two"], "date": dates}), tmp_path / "a.parquet"
    )
    first, second = pages_of(tmp_path / "a.parquet")
    assert isinstance(first, RawPage) and isinstance(second, RawPage)
    assert datetime.fromisoformat(first.date).timestamp() == 1_709_633_472
    assert (first.doc_id, second.doc_id, second.date) == ("1", "", "")


def test_a_damaged_page_costs_its_row_group_and_every_row_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    place = three_groups(path, "snappy").row_group(1).column(1)
    content = bytearray(path.read_bytes())
    middle = place.data_page_offset + place.total_compressed_size // 2
    content[middle : middle + 20] = b"\xff" * 20
    path.write_bytes(content)
    pages = pages_of(path)
    assert outcomes(pages) == ["page"] * 10 + ["broken_record"] * 10 + ["page"] * 10
    assert [page.source_offset for page in pages] == list(range(30))

    lost = pages[10]
    assert isinstance(lost, Rejected) and lost.detail.startswith(
        "row group 1 cannot be read from row 10 on: "
    )


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\xff" * 90 + b"PAR1", b"not Parquet"])
def test_a_file_that_cannot_be_opened_is_one_reject(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    assert outcomes(pages_of(path)) == ["broken_record"]


@given(
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), min_size=1, max_size=4),
    st.sampled_from(["none", "snappy"]),
)
def test_changed_bytes_never_end_the_reading(
    tmp_path_factory: pytest.TempPathFactory, changes, compression
) -> None:
    path = tmp_path_factory.mktemp("changed") / "a.parquet"
    three_groups(path, compression)
    content = bytearray(path.read_bytes())
    for place, change in changes:
        content[int(place * len(content))] ^= change
    path.write_bytes(content)
    try:
        rows = pq.ParquetFile(path).metadata.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        rows = 1  # a reject for the file
    pages = pages_of(path)
    assert len(pages) == rows or (isinstance(pages[-1], Rejected) and "rows" in pages[-1].detail)
