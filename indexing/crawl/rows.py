"""JSONL and DPR's TSV -> raw pages: a page per line, its text decoded already."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from answermill.indexing.crawl.gzip_stream import ByteStream
from answermill.indexing.crawl.raw_page import MAX_BODY, WHOLE, Place, Range, RawPage
from answermill.indexing.crawl.values import as_date, as_text
from answermill.schemas.corpus import Rejected

_ID, _TEXT = ("id", "_id", "doc_id"), ("text", "contents", "body")
COLUMNS = {*_ID, *_TEXT, "title", "url", "language", "date"}


def line_pages(
    path: Path,
    compressed: bool,
    name: str,
    parse: Callable[[str], Any],
    *,
    header: bool = False,
    within: Range = WHOLE,
) -> Iterator[RawPage | Rejected]:
    """A page per line within a range that is not blank; without the file's first line if it is a
    `header`."""
    start, stop = within
    # A plain file is entered one byte before the range, where a line may end; in another, all is inflated.
    stream = ByteStream(path, compressed, b"", 0 if compressed else max(0, start - 1))
    header = header and not start
    try:
        _to_own_lines(stream, start)
        while stop is None or stream.position < stop:
            place = Place(name, stream.position)
            line, size = _line(stream)

            if stream.fault and (size == 0 or stream.position > stream.fault_position):
                yield place.rejected("broken_record", stream.fault)
                stream.resume()
            elif size == 0:
                return
            elif line is None:
                yield place.rejected("too_large", f"line of {size} bytes; at most {MAX_BODY}")
            elif header:
                header = False
            elif line.strip():
                yield _line_page(place, line, parse)
    finally:
        stream.close()


def _to_own_lines(stream: ByteStream, start: int) -> None:
    """Skip to the first line that begins at or after the position `start`; the lines and faults before it are
    another unit's."""
    while stream.position < start:
        stream.drop(start - 1 - stream.position)
        _, size = _line(stream)
        if stream.fault and (stream.position < start or stream.position > stream.fault_position):
            stream.resume()
        elif not size:
            return


def _line(stream: ByteStream) -> tuple[bytes | None, int]:
    """(the next line, its size in bytes); the line is None if it is too long to be read. (b'', 0) at the
    end."""
    searched = 0
    while (end := stream.ahead.find(b"\n", searched)) < 0:
        searched = len(stream.ahead)
        if searched > MAX_BODY or stream.need(searched + 1) == searched:
            break

    if end < 0 and searched > MAX_BODY:
        size = stream.drop(searched)
        while (end := stream.ahead.find(b"\n")) < 0 and (read := len(stream.ahead) or stream.need(1)):
            size += stream.drop(read)
        return None, size + stream.drop(end + 1)

    size = end + 1 if end >= 0 else searched
    line = bytes(stream.ahead[:size])
    stream.drop(size)
    return (line if size <= MAX_BODY else None), size


def _line_page(place: Place, line: bytes, parse: Callable[[str], Any]) -> RawPage | Rejected:
    try:
        row = parse(line.removeprefix(BOM_UTF8).decode())
    except (ValueError, RecursionError) as e:
        return place.rejected("broken_json", f"{type(e).__name__}: {e}"[:200])
    if not isinstance(row, dict):
        return place.rejected("broken_json", f"{type(row).__name__} where an object was expected")
    return row_page(place, row)


def tsv_row(columns: list[str], line: str) -> dict[str, str]:
    """Column → cell of a line. Raises ValueError if the line has another number of cells."""
    csv.field_size_limit(MAX_BODY)
    try:
        values = next(csv.reader([line.rstrip("\r\n")], delimiter="\t"))
    except csv.Error as e:
        raise ValueError(str(e)) from e
    if len(values) != len(columns):
        raise ValueError(f"{len(values)} columns where {len(columns)} were expected")
    return dict(zip(columns, values, strict=True))


def row_page(place: Place, row: Mapping[str, Any]) -> RawPage | Rejected:
    """The page that a line or row holds, or why it is refused."""
    doc_id = next((as_text(row[c]) for c in _ID if row.get(c) is not None), "")
    text = next((row[c] for c in _TEXT if isinstance(row.get(c), (str, bytes))), None)
    url = _decoded(row.get("url"))

    place = Place(place.file, place.offset, doc_id, url)
    if text is None:
        return place.rejected("missing_text", f"none of {', '.join(_TEXT)}")
    if isinstance(text, bytes) and (problem := _undecodable(text)):
        return place.rejected("undecodable", problem)
    text = text.decode() if isinstance(text, bytes) else as_text(text)
    if len(text) > MAX_BODY:
        return place.rejected("too_large", f"{len(text)} characters")

    return RawPage(
        source_file=place.file,
        source_offset=place.offset,
        source_record=doc_id,
        url=url,
        date=as_date(row.get("date")),
        content_type="text/plain",
        charset="",
        body=b"",
        text=text,
        title=_decoded(row.get("title")),
        doc_id=doc_id,
        language=as_text(row.get("language")),
    )


def _decoded(value: Any) -> str:
    """A value as text; bytes are UTF-8, and what they are not is U+FFFD."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)


def _undecodable(text: bytes) -> str:
    """Why the bytes of a text are none; '' if they are UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as e:
        return f"{len(text)} bytes that are not UTF-8: {e}"[:200]
    return ""
