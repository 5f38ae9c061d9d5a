from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from answermill.indexing.crawl.raw_page import Place, RawPage
from answermill.indexing.crawl.rows import row_page
from answermill.indexing.crawl.values import as_date, as_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("07", "07"),
        (7, "7"),
        (7.0, "7"),  # pandas makes this of integers beside a null
        (2.5, "2.5"),
        (1e300, "1e+300"),
        (float("nan"), ""),
        (Decimal("12.00"), "12"),
        (Decimal("12.50"), "12.5"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (b"\x80" + bytes(14) + b"\x05", "80000000-0000-0000-0000-000000000005"),
        ("é".encode(), "é"),
        (b"\xff\x01", "ff01"),
        (True, "true"),
        (date(2024, 3, 5), "2024-03-05"),
        ({"$oid": "65e6"}, "65e6"),
        ([1, "a"], '[1, "a"]'),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_an_id_of_any_type_keeps_its_value_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text
    page = row_page(Place("in", 0), {"id": value, "text": "A text."})
    assert isinstance(page, RawPage) and page.doc_id == text


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2024-03-05", "2024-03-05"),
        ("2024-03-05T10:11:12Z", "2024-03-05T10:11:12Z"),
        ("2024-03-05 10:11:12", "2024-03-05T10:11:12"),
        ("2024-03-05 10:11:12.5+01", "2024-03-05T10:11:12.500000+01:00"),
        ("2024-03-05 10:11:12 UTC", "2024-03-05T10:11:12+00:00"),
        ("2024-03-05 10:11:12 -0500", "2024-03-05T10:11:12-05:00"),
        ("2024-03-05T10:11:12+01:00[Europe/Paris]", "2024-03-05T10:11:12+01:00"),
        ("2024/03/05 10:11", "2024-03-05T10:11:00"),
        ("20240305101112", "2024-03-05T10:11:12+00:00"),
        ("Tue, 05 Mar 2024 10:11:12 GMT", "2024-03-05T10:11:12+00:00"),
        ("Tue, 05 Mar 2024 10:11:12 +0100 (CET)", "2024-03-05T10:11:12+01:00"),
        ("Tue Mar  5 10:11:12 2024", "2024-03-05T10:11:12"),
        ("Tue Mar  5 10:11:12 EST 2024", "2024-03-05T10:11:12-05:00"),
        ("Tue Mar  5 10:11:12 +0100 2024", "2024-03-05T10:11:12+01:00"),
        (20240305, "2024-03-05"),
        (2024, "2024"),
        (1709633472, "2024-03-05T10:11:12+00:00"),
        (1709633472.0, "2024-03-05T10:11:12+00:00"),
        (1709633472000, "2024-03-05T10:11:12+00:00"),
        (1709633472e9, "2024-03-05T10:11:12+00:00"),
        (date(2024, 3, 5), "2024-03-05"),
        (datetime(2024, 3, 5, 10, 11, 12, tzinfo=UTC), "2024-03-05T10:11:12+00:00"),
        ({"$date": 1709633472000}, "2024-03-05T10:11:12+00:00"),
    ],
)
def test_a_date_of_any_writer_is_read(value: Any, iso: str) -> None:
    assert as_date(value) == iso


ZONES = {
    **{"Z": "+00:00", "UT": "+00:00", "UTC": "+00:00", "GMT": "+00:00", "est": "-05:00", "EDT": "-04:00"},
    **{"CST": "-06:00", "CDT": "-05:00", "MST": "-07:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00"},
}


@pytest.mark.parametrize(("zone", "offset"), ZONES.items())
@pytest.mark.parametrize("day", ["2024-03-05", "Tue, 05 Mar 2024"])
def test_a_zone_of_mail_is_read_by_its_name(day: str, zone: str, offset: str) -> None:
    assert as_date(f"{day} 10:11:12 {zone}") == f"2024-03-05T10:11:12{offset}"


@pytest.mark.parametrize(
    "zone", ["CEST", "CET", "AST", "A", "IST", "EST5EDT", "GMT+2", "UTC+01:00", "+2", "PM"]
)
@pytest.mark.parametrize("day", ["2024-03-05", "Tue, 05 Mar 2024"])
def test_another_zone_costs_the_date_and_not_the_row(day: str, zone: str) -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "A text.", "date": f"{day} 10:11:12 {zone}"})
    assert isinstance(page, RawPage) and page.date == ""


@pytest.mark.parametrize("value", [None, "", "yesterday", "2024-02-30", "9" * 40, -1, 7, True, float("inf")])
def test_what_is_no_date_costs_the_date_and_not_the_row(value: Any) -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "A text.", "date": value})
    assert isinstance(page, RawPage) and page.date == ""


def test_a_text_in_bytes_is_a_text() -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "Tea is hot — often.".encode(), "title": b"Tea"})
    assert isinstance(page, RawPage) and (page.text, page.title) == ("Tea is hot — often.", "Tea")
