from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from answermill.indexing.crawl.raw_page import Place, RawPage
from answermill.indexing.crawl.rows import row_page
from answermill.indexing.crawl.values import as_date, as_text
from answermill.schemas.corpus import Rejected


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
        (bytes(15) + b"\x05", "00000000-0000-0000-0000-000000000005"),
        ({"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAABw==", "subType": "04"}}, str(UUID(int=7))),
        ({"$binary": {"base64": "Not in base64!", "subType": "00"}}, "368b629db6ac7bae"),
        ("é".encode(), "é"),
        (b"\xff\x01", "ff01"),
        (True, "true"),
        (date(2024, 3, 5), "2024-03-05"),
        ({"$oid": "65e6"}, "65e6"),
        ({"$uuid": "65e6"}, "65e6"),
        ({"$numberInt": "7"}, "7"),
        ({"$numberDecimal": "7.0"}, "7"),
        ({"$numberDouble": "NaN"}, ""),
        ({"$numberDouble": "seven"}, "seven"),
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
        ("2024-03-05Z", "2024-03-05"),  # a day of XML Schema, with its zone
        ("2024-03-05-06:00", "2024-03-05"),
        ("2024-03-05+09:00", "2024-03-05"),
        ("05-Mar-2024", "2024-03-05"),
        ("March 5th, 2024", "2024-03-05"),
        ("2nd April 2024", "2024-04-02"),
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
        ("2024-03-05 10:11:12.5 +0100 CET", "2024-03-05T10:11:12.500000+01:00"),
        ("2024-03-05 10:11:12 +0000 UTC m=+0.1", "2024-03-05T10:11:12+00:00"),
        ("Tue Mar 05 2024 10:11:12 GMT+0100 (Mitteleuropäische Zeit)", "2024-03-05T10:11:12+01:00"),
        ("/Date(1709633472000+0100)/", "2024-03-05T10:11:12+00:00"),
        ("2024-3-5", "2024-03-05"),
        ("2024-W10-2", "2024-03-05"),
        ("2024-065", "2024-03-05"),
        ("Tue, 05 Mar 2024", "2024-03-05"),
        ("5 March 2024", "2024-03-05"),
        ("March 5, 2024", "2024-03-05"),
        ("Sept. 5, 2024", "2024-09-05"),
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


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        "2024-02-30",
        "9" * 40,
        -1,
        7,
        True,
        float("inf"),
        "5 6 2024",
        "Mai 5, 2024",
        "30 Feb 2024",
        "2024-W60-1",
        "2024-400",
        "March 2024",
        "3/5/2024",
        "²",
        "٤²",
        "1.²",
        {"$binary": {"base64": "A"}},
        {"$numberDecimal": "1E+10000000"},
        {"$numberDecimal": "-1E-10000000"},
        pytest.param("1" + 200_000 * " " + "(a) b", id="long"),
    ],
)
def test_what_is_no_date_costs_the_date_and_not_the_row(value: Any) -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "A text.", "date": value})
    assert isinstance(page, RawPage) and page.date == ""


def test_a_text_in_bytes_is_a_text() -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "Tea is hot — often.".encode(), "title": b"Tea"})
    assert isinstance(page, RawPage) and (page.text, page.title) == ("Tea is hot — often.", "Tea")


def test_bytes_of_another_encoding_are_no_text() -> None:
    page = row_page(Place("in", 0), {"id": "a", "text": "Thé".encode("latin-1")})
    assert isinstance(page, Rejected) and page.reason == "undecodable"
    page = row_page(Place("in", 0), {"id": "a", "text": "Tea", "title": b"Th\xe9", "url": b"http://a/\xe9"})
    assert isinstance(page, RawPage) and (page.title, page.url) == ("Th\ufffd", "http://a/\ufffd")
