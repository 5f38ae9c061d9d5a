"""A page as the input has it: bytes or text, with the place that it came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from answermill.schemas.corpus import Rejected

MAX_BODY = 10_000_000  # bytes of one page, decompressed
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?")


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as the input has it: bytes to be decoded, or `text` if the format is Unicode already."""

    source_file: str
    source_offset: int  # as Document.source_offset
    source_record: str
    url: str
    date: str
    content_type: str  # 'text/html', 'application/xhtml+xml' or 'text/plain'
    charset: str  # of the HTTP header; '' if it declares none
    body: bytes
    text: str | None
    title: str
    doc_id: str  # '' if none is given
    language: str = ""  # '' if none is given
    is_conversion: bool = False  # text of a page that its crawler has extracted, as in WET files
    likely_charset: str = ""  # where the header has none that browsers follow


class Range(NamedTuple):
    """A part of a file: the records that begin in [start, stop).

    Bytes of the file as it is on the disk; of JSONL and TSV that is compressed, of the text.
    """

    start: int = 0
    stop: int | None = None
    """None for the end of the file."""


WHOLE = Range()


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a page, for its RawPage or Rejected; as much as is known."""

    file: str
    offset: int
    record: str = ""
    url: str = ""

    def rejected(self, reason: str, detail: str) -> Rejected:
        return Rejected(self.file, self.offset, self.record, self.url, reason, detail)


def date(value: str) -> str:
    """`value`, if it is ISO 8601 (a year alone is enough in WARC/1.1), else ''."""
    if not _DATE.fullmatch(value):
        return ""
    if len(value) >= 10:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return ""
    return value
