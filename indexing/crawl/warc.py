"""Records of WARC and WET files -> raw pages.

Records are read here and not by FastWARC (which lends its brotli reader): it takes a truncated file for a
whole one, gives up at the first header it dislikes, and knows no HTTP chunk extensions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from answermill.indexing.crawl.gzip_stream import CHUNK, ByteStream, next_member
from answermill.indexing.crawl.http_response import BLANK_LINE, header_fields, page
from answermill.indexing.crawl.raw_page import MAX_BODY, WHOLE, Place, Range, RawPage
from answermill.schemas.corpus import Rejected

_MAX_HEADER = 65_536  # bytes of the WARC header of a record

_PAGES = {"response", "resource", "conversion"}
_OTHERS = {"request", "warcinfo", "metadata", "revisit", "continuation"}

_START = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n")
_BLANKS = re.compile(rb"[\r\n]*")
_SURE_START = re.compile(rb"\n\r?\n(?P<start>WARC/\d+\.\d+[ \t]*\r?\n)")
"""Start of a record after the two line ends of another one: a page may have a line like it."""
_NEXT = re.compile(rb"\nWARC/\d+\.\d+[ \t]*\r?\n")


def warc_pages(
    path: Path, compressed: bool, name: str, skipped: Counter[str], within: Range = WHOLE
) -> Iterator[RawPage | Rejected]:
    """Pages as `read_pages` yields them, of a file that is known to be WARC, `compressed` by gzip or not."""
    first, end = (_first_record(path, compressed, edge) for edge in within)
    stream = ByteStream(path, compressed, b"WARC/", first or 0)

    try:
        while True:
            while stream.need(64) and (blanks := len(_BLANKS.match(stream.ahead)[0])):  # type: ignore[index]
                stream.drop(blanks)
            is_faulty = stream.fault and stream.position >= stream.fault_position
            if end is not None and (stream.fault_offset if is_faulty else stream.offset()) >= end:
                return
            if is_faulty:
                yield from _faulty_member(stream, name, skipped)
            elif not stream.ahead:
                return
            else:
                yield from _record(stream, name, skipped)
    finally:
        stream.close()


def _first_record(path: Path, compressed: bool, edge: int | None) -> int | None:
    """Where the first record begins after an edge of a range; the file's size if none does.

    Both ranges at an edge look for it, so that each record is in one of them.
    """
    if not edge:
        return edge

    with path.open("rb") as file:
        if compressed:
            return next_member(file, edge, b"WARC/")

        offset, block = edge, b""
        file.seek(offset)
        while chunk := file.read(CHUNK):
            block += chunk
            if match := _SURE_START.search(block):
                return offset + match.start("start")
            offset += max(0, len(block) - 64)
            block = block[-64:]
        return offset + len(block)


def _faulty_member(stream: ByteStream, name: str, skipped: Counter[str]) -> Iterator[Rejected]:
    """The end of a gzip member that does not inflate; its header can often be read and names the lost
    record."""
    fields = _warc_fields(_header(stream)) or {}
    place = _place(name, stream.fault_offset, fields)
    fault = stream.fault
    stream.resume()
    kind = fields.get("warc-type", "").lower()
    if kind in _OTHERS:
        skipped[kind] += 1
    else:
        yield place.rejected("broken_record", fault)


def _record(stream: ByteStream, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """Page or reject of one record; afterwards the stream is at the next, or at a fault."""
    offset = stream.offset()
    header = _header(stream)
    fields = _warc_fields(header)

    if fields is None:
        _to_next_record(stream)
        if stream.fault and stream.position > stream.fault_position:
            stream.resume()
        yield Place(name, offset).rejected("broken_record", f"no WARC header: {header[:60]!r}")
        return

    place = _place(name, offset, fields)
    kind = fields.get("warc-type", "").lower()
    claimed = fields.get("content-length", "")

    if not (claimed.isascii() and claimed.isdigit()):
        problem = f"Content-Length is {claimed!r}"
        _to_next_record(stream)
        block = None
    else:
        stream.drop(len(header))
        block, problem = _block(stream, int(claimed[:18]))

    if stream.fault and stream.position > stream.fault_position:
        problem = stream.fault
        stream.resume()

    if kind not in _PAGES and (kind or not problem):
        skipped[kind if kind in _OTHERS else "unknown"] += 1
    elif problem:
        yield place.rejected("broken_record", problem)
    elif block is None:
        yield place.rejected("too_large", f"{claimed} bytes; at most {MAX_BODY}")
    elif cut := fields.get("warc-truncated"):
        # Nothing would show later that the text ends in the middle of a sentence, or of a tag.
        yield place.rejected("truncated", f"WARC-Truncated: {cut}")
    elif segment := fields.get("warc-segment-number"):
        yield place.rejected("truncated", f"WARC-Segment-Number: {segment}; segments are not joined")
    else:
        yield page(place, fields, block)


def _header(stream: ByteStream) -> bytes:
    """The bytes of the WARC header with the blank line that ends it, or as much as there is."""
    stream.need(4096)
    end = BLANK_LINE.search(stream.ahead)
    if end is None and len(stream.ahead) >= 4096:
        stream.need(_MAX_HEADER)
        end = BLANK_LINE.search(stream.ahead)
    return bytes(stream.ahead[: end.end() if end else _MAX_HEADER])


def _warc_fields(header: bytes) -> dict[str, str] | None:
    """The fields of a whole WARC header, names in lower case; None if it is not one."""
    start = _START.match(header)
    if start is None or not header.endswith(b"\n"):
        return None
    return header_fields(header[start.end() :])


def _place(name: str, offset: int, fields: Mapping[str, str]) -> Place:
    return Place(
        name, offset, fields.get("warc-record-id", ""), fields.get("warc-target-uri", "").strip("<>")
    )


def _block(stream: ByteStream, length: int) -> tuple[bytes | None, str]:
    """(block, '') of the length that its header claims; (None, '') if it is too large; (None, why) if the
    length is wrong.

    A record ends with two line ends, or at least the next record or the end of the file follows. Otherwise
    the length is wrong: if a record starts within the claimed length, reading goes on there.
    """
    ahead = stream.need(min(length, MAX_BODY + _MAX_HEADER))
    if length > ahead >= MAX_BODY and _another_follows(stream, length):
        stream.drop(length)
        return None, ""

    inside = None
    if length <= ahead:
        if _ends_well(stream, length):
            block = bytes(stream.ahead[:length])
            stream.drop(length)
            return block, ""
        stream.need(length + 32)
        inside = _NEXT.search(stream.ahead, 0, length + 32)
        problem = f"Content-Length {length}: no record starts after it"
    else:
        inside = _NEXT.search(stream.ahead)
        problem = f"Content-Length {length}: the file ends after {ahead} bytes"

    if inside:
        stream.drop(inside.start() + 1)
        return None, f"Content-Length {length}: the next record starts after {inside.start() + 1} bytes"

    if length > ahead >= MAX_BODY:
        dropped = stream.drop(length)
        return (
            None,
            "" if dropped == length else f"Content-Length {length}: the file ends after {dropped} bytes",
        )

    stream.drop(min(length, ahead))
    if not stream.fault:
        _to_next_record(stream)
    return None, problem


def _another_follows(stream: ByteStream, length: int) -> bool:
    """True if a record that is too long to be held ends well: then those that begin within it are its
    content, a WARC file in a WARC file."""
    later = stream.after(length)
    if later is None:
        return False
    try:
        return _ends_well(later, 0)
    finally:
        later.close()


def _ends_well(stream: ByteStream, length: int) -> bool:
    """True if a record starts after `length` bytes, or the file ends; reads into the next gzip member to
    find out."""
    size = 32
    while True:
        ahead = stream.need(length + size)
        if stream.ahead.startswith(b"\r\n\r\n", length):
            return True  # whatever follows
        if stream.fault and stream.fault_position >= stream.position + length:
            return True  # the next member is the faulty one
        rest = bytes(stream.ahead[length : length + size]).lstrip(b"\r\n")
        if len(rest) >= 5 or ahead < length + size:
            return rest.startswith(b"WARC/") or not rest or (length == 0 and ahead == 0)
        size *= 2


def _to_next_record(stream: ByteStream) -> None:
    """Skip to the next line that starts a record; at least one byte."""
    stream.drop(1)
    while True:
        ahead = stream.need(CHUNK)
        if match := _NEXT.search(stream.ahead):
            stream.drop(match.start() + 1)
            return
        stream.drop(max(1, ahead - 64))
        if ahead < CHUNK:
            stream.drop(64 if not stream.fault else 0)
            return
