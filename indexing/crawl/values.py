"""Values of rows, of whatever type another program gave them, as a document has them: an id, a text, a
date."""

from __future__ import annotations

import binascii
import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from uuid import UUID

from answermill.indexing.crawl.raw_page import date as iso_date

_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r")  # which no text has
EXACT = 2**53
_DIGITS = 400
"""Digits of a whole number that is written out; 50 bytes could ask for millions."""
"""From here on a float stands for several whole numbers."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST_SECONDS = 10**8  # of an epoch, 1973: a smaller number is none
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""(number below which an epoch is in this unit, units of a second)."""
_ZONES = {
    **dict.fromkeys(("Z", "UT", "UTC", "GMT"), "+0000"),
    **{"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500"},
    **{"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700"},
}
"""Name of a zone of RFC 5322, section 4.3 → its offset. Others have several, or none that all know."""
_LONGEST = 100  # characters of a date with all that its writers add
_NAMED = re.compile(r"(?<=\d)\s*([A-Za-z]+)(?=$|\s+\d{4}$)")
_COMMENT = re.compile(r"\s*\([^()]*\)$")
_MAIL_DATE = re.compile(r"[^:]*:\d\d(?::\d\d)?(?: [+-]\d{4})?(?:\s+\d{4})?")
_OFFSET = re.compile(r"\s+(?=[+-]\d\d(?::?\d\d)?$)")
_ZONE_NAME = re.compile(r"\[[^\[\]]*\]$")  # as Java writes it: 2024-03-05T10:11:12+01:00[Europe/Paris]
_DAY = re.compile(r"(\d{4})([-/.]?)(\d\d)\2(\d\d)")
_ZONED_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d)")  # of XML Schema: the zone is the day's
_LOOSE_DAY = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_STAMP = re.compile(r"\d{14}")  # of web archives
_DOT_NET = re.compile(r"/Date\((\d+)(?:[+-]\d{4})?\)/")
_GO_NAME = re.compile(r"(?<=\d [+-]\d{4}) [A-Z]{1,5}(?: m=\S+)?$")  # of a zone whose offset stands before it
_JAVASCRIPT = re.compile(r"([A-Z][a-z]{2} [A-Z][a-z]{2} \d\d) (\d{4}) (\d\d:\d\d:\d\d) GMT([+-]\d{4})")
_OF_YEAR = re.compile(r"\d{4}-\d{3}")
_IN_WORDS = re.compile(
    r"(?:[A-Za-z]{3,9},? )?(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?[ -])?(?P<month>[A-Za-z]{3,9})\.?"
    r"(?: (?P<american>\d{1,2})(?:st|nd|rd|th)?)?(?:,? |-)(?P<year>\d{4})"
)
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)


def as_text(value: Any) -> str:
    """A string as it is, other values as their writers would print them; '' for null and what is no number.

    >>> [as_text(value) for value in ("a", 7, 7.0, 7.5, Decimal("7.00"), b"a", float("nan"), None)]
    ['a', '7', '7', '7.5', '7', 'a', '', '']
    """
    match value:
        case None:
            return ""
        case str():
            text = value
        case bytes() | bytearray() | memoryview():
            text = _of_bytes(bytes(value))
        case bool():
            text = str(value).lower()
        case float():
            whole = value.is_integer() and abs(value) < EXACT
            text = "" if value != value else str(int(value)) if whole else repr(value)
        case Decimal():
            if value.is_nan():
                return ""
            is_short = value.is_finite() and value.adjusted() < _DIGITS
            text = (
                str(int(value)) if is_short and value == value.to_integral_value() else str(value.normalize())
            )
        case date():  # a datetime is one
            text = value.isoformat()
        case {"$oid": inner} | {"$uuid": inner} | {"$date": inner}:  # as MongoDB exports them
            return as_text(inner)
        case (
            {"$numberInt": inner}
            | {"$numberLong": inner}
            | {"$numberDouble": inner}
            | {"$numberDecimal": inner}
        ):
            return _of_number(inner)
        case {"$binary": {"base64": str() as packed}}:
            return _of_base64(packed)
        case dict() | list() | tuple():
            text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=as_text)
        case _:
            text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can hold lone surrogates
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_number(value: Any) -> Any:
    """The whole number that a float or a decimal is, and no other; any other value as it is.

    >>> [whole_number(value) for value in (7.0, Decimal("7.00"), 7.5, 2.0**53, "7.0")]
    [7, 7, 7.5, 9007199254740992.0, '7.0']
    """
    if not isinstance(value, float | Decimal) or value != value or not -EXACT < value < EXACT:
        return value
    return int(value) if int(value) == value else value


def _of_number(written: Any) -> str:
    """A number that is written as a string."""
    try:
        return as_text(Decimal(written))
    except (ArithmeticError, TypeError, ValueError):
        return as_text(written)


def _of_base64(packed: str) -> str:
    """Bytes in base64 as text; what is none stays as it is written."""
    try:
        return _of_bytes(binascii.a2b_base64(packed.encode("ascii", "ignore") + b"==="))
    except binascii.Error:
        return packed


def _of_bytes(content: bytes) -> str:
    """Bytes as the text that they are in UTF-8, else as a UUID if they may be one, else in hexadecimal."""
    if len(content) == 16 and not _CONTROLS.isdisjoint(content):
        return str(UUID(bytes=content))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return str(UUID(bytes=content)) if len(content) == 16 else content.hex()


def as_date(value: Any) -> str:
    """A date in ISO 8601, of a date, a number since 1970 in seconds or smaller units, or a text in ISO 8601
    or as HTTP and mail write it; '' for anything else, such as a zone's name that RFC 5322 does not have.

    >>> [as_date(value) for value in ("2024-03-05 10:11:12", 1709633472000, "Tue, 05 Mar 2024 10:11:12 GMT")]
    ['2024-03-05T10:11:12', '2024-03-05T10:11:12+00:00', '2024-03-05T10:11:12+00:00']
    """
    number = Decimal(value) if isinstance(value, float) and isfinite(value) else value
    text = as_text(number).strip()
    if isinstance(value, bool) or not 0 < len(text) <= _LONGEST:
        return ""
    if iso := iso_date(text):
        return iso
    try:
        read = _read(text)
    except (ValueError, TypeError, IndexError, ArithmeticError):  # by parsers of what is no date
        return ""
    return iso_date(read)


def _read(text: str) -> str:
    """The date that a text has, which is not ISO 8601 as it is. Raises ValueError, TypeError, IndexError or
    ArithmeticError if it has none."""
    if (day := _read_day(text)) is not None:
        return day.isoformat()
    if _STAMP.fullmatch(text):
        return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).isoformat()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return _since_1970(Decimal(text)).isoformat()
    if milliseconds := _DOT_NET.fullmatch(text):
        return (_EPOCH + timedelta(milliseconds=int(milliseconds[1]))).isoformat()

    text = _GO_NAME.sub("", _ZONE_NAME.sub("", _COMMENT.sub("", text)))
    text = _NAMED.sub(_offset, _JAVASCRIPT.sub(r"\1 \3 \4 \2", text))
    shape = _DAY.match(text)
    if shape is None:
        # The parser of mail drops a zone that it does not know.
        if not _MAIL_DATE.fullmatch(text):
            raise ValueError(f"{text} is no date of RFC 5322")
        return parsedate_to_datetime(text).isoformat()
    zone = _OFFSET.sub("", text)
    return datetime.fromisoformat(f"{shape[1]}-{shape[3]}-{shape[4]}{zone[shape.end() :]}").isoformat()


def _read_day(text: str) -> date | None:
    """The day that a text without a time has; None for other texts. Raises ValueError for a day that no month
    has."""
    if zoned := _ZONED_DAY.fullmatch(text):
        return date.fromisoformat(zoned[1])
    if day := _DAY.fullmatch(text) or _LOOSE_DAY.fullmatch(text):
        return date(int(day[1]), int(day[3]), int(day[4]))
    if _OF_YEAR.fullmatch(text):
        return datetime.strptime(text, "%Y-%j").date()
    if "W" in text and len(text) <= 10 and text[:4].isdigit():
        return date.fromisoformat(text)

    words = _IN_WORDS.fullmatch(text)
    if words is None or (words["day"] is None) == (words["american"] is None):
        return None
    name = words["month"].lower()
    month = next((n for n, full in enumerate(_MONTHS, 1) if full.startswith(name)), 0)
    return date(int(words["year"]), month, int(words["day"] or words["american"]))


def _offset(name: re.Match[str]) -> str:
    offset = _ZONES.get(name[1].upper())
    if offset is None:
        raise ValueError(f"{name[1]} is no zone of RFC 5322")
    return f" {offset}"


def _since_1970(number: Decimal) -> datetime:
    if number < _LEAST_SECONDS:
        raise ValueError(f"{number} is no time since 1970")
    parts = next((parts for below, parts in _UNITS if number < below), None)
    if parts is None:
        raise ValueError(f"{number} is no time since 1970")
    return _EPOCH + timedelta(microseconds=int(number * 10**6 / parts))
