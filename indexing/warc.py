"""Input files -> raw pages with where they came from: WARC and WET, JSONL, DPR's TSV, Parquet; all but Parquet also as .gz.

A page is a response, resource or conversion record of a WARC file, a line, or a row, and each gives exactly one RawPage
or Rejected: pages in = documents + rejects can be checked by counting. A file is read as one stream in flat memory. What
is broken costs itself and nothing else:
- a gzip member that does not inflate, or whose checksum is wrong, is one reject; reading goes on at the next member;
- a record whose length is wrong is one reject; reading goes on at the next line that starts a record;
- nothing is inflated beyond MAX_BODY bytes, whatever it claims.

Records are read here and not by FastWARC (which lends its brotli reader): it takes a truncated file for a whole one,
gives up at the first header it dislikes, and knows no HTTP chunk extensions.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from fastwarc.stream_io import BrotliReader
from isal import isal_zlib
from resiliparse.parse.encoding import detect_mime

from schemas.corpus import Rejected

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

MAX_BODY = 10_000_000  # bytes of one page, decompressed
_MAX_HEADER = 65_536  # bytes of the WARC header of a record
_CHUNK = 131_072

_PAGES = {"response", "resource", "conversion"}
_OTHERS = {"request", "warcinfo", "metadata", "revisit", "continuation"}
_HTML = {"text/html", "application/xhtml+xml"}
_GZIP = b"\x1f\x8b\x08"
_UNSUPPORTED = {
    b"filedesc://": "ARC 1.0",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "ZIP (WACZ)",
}

_START = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n")
_BLANKS = re.compile(rb"[\r\n]*")
_NEXT = re.compile(rb"\nWARC/\d+\.\d+[ \t]*\r?\n")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})\b")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?")


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as the input has it: bytes to be decoded, or `text` where the format is Unicode already."""

    source_file: str
    source_offset: int  # as Document.source_offset
    source_record: str
    url: str
    date: str
    content_type: str  # 'text/html', 'application/xhtml+xml' or 'text/plain'
    charset: str  # of the HTTP header; '' where it declares none
    body: bytes
    text: str | None
    title: str
    doc_id: str  # '' where none is given
    language: str = ""  # '' where none is given


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page is, and what is known of it, for its RawPage or Rejected."""

    file: str
    offset: int
    record: str = ""
    url: str = ""

    def rejected(self, reason: str, detail: str) -> Rejected:
        return Rejected(self.file, self.offset, self.record, self.url, reason, detail)


def read_pages(path: Path, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """The pages of a file, in its order. `name` becomes source_file; `skipped` counts WARC records that are no pages.

    The content decides the format, and the suffix where it cannot. A format that is known but not read gives one
    Rejected, so that a job goes on; an unknown one raises ValueError.
    """
    with path.open("rb") as file:
        head = file.read(_CHUNK)
    damaged = path.suffix == ".gz" and _GZIP in head and not head.startswith(b"WARC/")  # at its very start
    compressed = head.startswith(_GZIP) or damaged
    if compressed:
        head = _inflated_head(head)
    suffixes = [s.lower() for s in path.suffixes]
    for magic, kind in _UNSUPPORTED.items():
        if head.startswith(magic):
            detail = f"{kind} is not read; give WARC, WET, JSONL, TSV or Parquet, plain or .gz"
            return iter([_Place(name, 0).rejected("unsupported_format", detail)])
    if head.startswith(b"PAR1"):
        return _parquet_pages(path, name)
    if not compressed and not head:
        return iter(())
    if head.startswith(b"WARC/") or {".warc", ".wet", ".wat"} & set(suffixes):
        return _warc_pages(path, compressed, name, skipped)
    if {".jsonl", ".ndjson", ".json"} & set(suffixes) or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _line_pages(path, compressed, name, json.loads)
    if ".tsv" in suffixes and head.startswith(b"id\ttext"):
        columns = head.split(b"\n", 1)[0].decode().strip().split("\t")
        return _line_pages(path, compressed, name, lambda line: _tsv_row(columns, line), header=True)
    if not head and _inflates(path):
        return iter(())
    raise ValueError(
        f"{path}: unknown format (starts with {head[:16]!r}); known: WARC and WET (.warc, .wet), JSONL (.jsonl), "
        "TSV whose first line is 'id<tab>text<tab>title', Parquet (.parquet)"
    )


# The bytes of a file, plain or gzip.


class _Fault(Exception):
    """What lies ahead in the file cannot be read."""


class _Input:
    """The decompressed bytes of a file as one stream, and where in the file they come from.

    `ahead` holds the bytes that were read and not yet dropped; `position` is the decompressed position of its first.
    A gzip member that does not inflate leaves a `fault`: the stream ends there until `resume` is called, which goes on
    at the next member. All bytes of the faulty member that are still ahead are unsure: its checksum was never reached.
    """

    def __init__(self, path: Path, compressed: bool, starts: bytes) -> None:
        self.ahead = bytearray()
        self.position = 0
        self.fault = ""
        self.fault_offset = 0  # in the file
        self.fault_position = 0  # in the stream: the first byte that is unsure
        self._file: BinaryIO = path.open("rb")
        self._compressed = compressed
        self._starts = starts  # what a member must inflate to, to be believed after a fault
        self._inflater: Any = None
        self._input = b""  # compressed bytes, read and not yet inflated
        self._offset = 0  # of the first of them in the file
        self._members: deque[tuple[int, int]] = deque([(0, 0)])  # (position, offset in the file), of what is ahead

    def close(self) -> None:
        self._file.close()

    def need(self, count: int) -> int:
        """Read on until `count` bytes are ahead, or all there are; how many there are now, at most `count`."""
        while len(self.ahead) < count and self._fill():
            pass
        return min(count, len(self.ahead))

    def drop(self, count: int) -> int:
        """Pass over `count` bytes, in flat memory; how many there were."""
        left = count
        while left > len(self.ahead):
            left -= len(self.ahead)
            self.position += len(self.ahead)
            self.ahead.clear()
            if not self._fill():
                return count - left
        del self.ahead[:left]
        self.position += left
        return count

    def offset(self) -> int:
        """Where the next byte is in the file: of plain files its own place, of compressed ones its member's."""
        if not self._compressed:
            return self.position
        while len(self._members) > 1 and self._members[1][0] <= self.position:
            self._members.popleft()
        return self._members[0][1]

    def resume(self) -> None:
        """Drop what is left of a faulty member, go to the next one that can be read."""
        self.drop(len(self.ahead))
        offset = self.fault_offset + 1
        self.fault = ""
        self._inflater = None
        overlap = b""
        self._file.seek(offset)
        while more := self._file.read(_CHUNK):
            block = overlap + more
            begin = offset - len(overlap)
            at = block.find(_GZIP)
            while at >= 0:
                if self._readable(begin + at):
                    self._file.seek(begin + at)
                    self._offset, self._input = begin + at, b""
                    return
                at = block.find(_GZIP, at + 1)
            overlap = block[-2:]
            offset += len(more)
            self._file.seek(offset)
        self._input = b""

    def _readable(self, offset: int) -> bool:
        self._file.seek(offset)
        return _inflated_head(self._file.read(4096), len(self._starts) or 1).startswith(self._starts)

    def _fill(self) -> bool:
        if self.fault:
            return False
        if not self._compressed:
            chunk = self._file.read(_CHUNK)
            self.ahead += chunk
            return bool(chunk)
        try:
            return self._inflate()
        except _Fault as fault:
            self.fault = str(fault)
            self.fault_position, self.fault_offset = self._members[-1]
            self._input = b""
            return False

    def _inflate(self) -> bool:
        """Some more bytes, until there are no more members."""
        while True:
            if not self._input:
                self._input = self._file.read(_CHUNK)
            if self._inflater is None:
                if not self._input:
                    return False
                self._open_member()
                if self._inflater is None:
                    continue
            try:
                chunk = self._inflater.decompress(self._input, _CHUNK)
            except _IsalError as e:
                raise _Fault(f"gzip member at byte {self._members[-1][1]}: {e}") from e
            rest = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            read = bool(self._input)
            self._offset += len(self._input) - len(rest)
            self._input = rest
            if self._inflater.eof:
                self._inflater = None
            elif not read and not chunk:
                raise _Fault(f"gzip member at byte {self._members[-1][1]} is truncated")
            if chunk:
                self.ahead += chunk
                return True

    def _open_member(self) -> None:
        if len(self._input) < 18:
            self._input += self._file.read(_CHUNK)
        end = self.position + len(self.ahead)
        if self._input.startswith(_GZIP):
            if len(self._members) > 1 and self._members[-1][0] == end:
                self._members.pop()
            self._members.append((end, self._offset))
            self._inflater = isal_zlib.decompressobj(31)
        elif self._input.startswith(b"\0"):  # padding, as tapes and block devices have it
            rest = self._input.lstrip(b"\0")
            self._offset += len(self._input) - len(rest)
            self._input = rest
        else:
            self._members.append((end, self._offset))
            raise _Fault(f"no gzip member at byte {self._offset}")


def _inflated_head(compressed: bytes, size: int = 4096) -> bytes:
    """The first bytes of a gzip member; b'' where it does not inflate."""
    try:
        return bytes(isal_zlib.decompressobj(31).decompress(compressed, size))
    except _IsalError:
        return b""


def _inflates(path: Path) -> bool:
    stream = _Input(path, True, b"")
    try:
        return stream.need(1) == 0 and not stream.fault
    finally:
        stream.close()


# WARC and WET.


def _warc_pages(path: Path, compressed: bool, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    stream = _Input(path, compressed, b"WARC/")
    try:
        while True:
            while stream.need(64) and (blanks := len(_BLANKS.match(stream.ahead)[0])):  # type: ignore[index]
                stream.drop(blanks)
            if stream.fault and stream.position >= stream.fault_position:
                yield from _faulty_member(stream, name, skipped)
            elif not stream.ahead:
                return
            else:
                yield from _record(stream, name, skipped)
    finally:
        stream.close()


def _faulty_member(stream: _Input, name: str, skipped: Counter[str]) -> Iterator[Rejected]:
    """The end of a member that could not be inflated; its header is often there, and says what was lost."""
    fields = _warc_fields(_header(stream)) or {}
    place = _place(name, stream.fault_offset, fields)
    fault = stream.fault
    stream.resume()
    kind = fields.get("warc-type", "").lower()
    if kind in _OTHERS:
        skipped[kind] += 1
    else:
        yield place.rejected("broken_record", fault)


def _record(stream: _Input, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """One record; afterwards the stream is at the next, or at a fault."""
    offset = stream.offset()
    header = _header(stream)
    fields = _warc_fields(header)
    if fields is None:
        _to_next_record(stream)
        if stream.fault and stream.position > stream.fault_position:
            stream.resume()
        yield _Place(name, offset).rejected("broken_record", f"no WARC header: {header[:60]!r}")
        return
    place = _place(name, offset, fields)
    kind = fields.get("warc-type", "").lower()
    claimed = fields.get("content-length", "")
    if not (claimed.isascii() and claimed.isdigit()):
        wrong = f"Content-Length is {claimed!r}"
        _to_next_record(stream)
        block = None
    else:
        stream.drop(len(header))
        block, wrong = _block(stream, int(claimed[:18]))
    if stream.fault and stream.position > stream.fault_position:
        wrong = stream.fault
        stream.resume()
    if kind not in _PAGES and (kind or not wrong):
        skipped[kind if kind in _OTHERS else "unknown"] += 1
    elif wrong:
        yield place.rejected("broken_record", wrong)
    elif block is None:
        yield place.rejected("too_large", f"{claimed} bytes; at most {MAX_BODY}")
    elif cut := fields.get("warc-truncated"):
        # Text that ends in the middle of a sentence, or of a tag, would not be told from the page's own end.
        yield place.rejected("truncated", f"WARC-Truncated: {cut}")
    else:
        yield _page(place, fields, block)


def _header(stream: _Input) -> bytes:
    """The bytes of the WARC header with the blank line that ends it, or as much as there is."""
    stream.need(4096)
    end = _BLANK_LINE.search(stream.ahead)
    if end is None and len(stream.ahead) >= 4096:
        stream.need(_MAX_HEADER)
        end = _BLANK_LINE.search(stream.ahead)
    return bytes(stream.ahead[: end.end() if end else _MAX_HEADER])


def _warc_fields(header: bytes) -> dict[str, str] | None:
    """The fields of a whole WARC header, names in lower case; None where it is none."""
    start = _START.match(header)
    if start is None or not header.endswith(b"\n"):
        return None
    return _fields(header[start.end() :])


def _fields(lines: bytes) -> dict[str, str]:
    """'Name: value' lines; the first of a name counts, lines that start with a blank continue the one before."""
    found: dict[str, str] = {}
    for line in re.sub(rb"\r?\n[ \t]+", b" ", lines).splitlines():
        name, colon, value = line.partition(b":")
        if colon and _NAME.fullmatch(name):
            found.setdefault(name.decode("ascii").lower(), _text(value.strip()))
    return found


def _text(value: bytes) -> str:
    """Headers are UTF-8 by the WARC standard, and Latin-1 in the wild."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _place(name: str, offset: int, fields: Mapping[str, str]) -> _Place:
    return _Place(name, offset, fields.get("warc-record-id", ""), fields.get("warc-target-uri", "").strip("<>"))


def _block(stream: _Input, length: int) -> tuple[bytes | None, str]:
    """(block, '') of the length its header claims; (None, '') if it is too large; or why it cannot be believed.

    A record ends with two line ends, or at least the next record or the end of the file follows. Where that is not so,
    the length was wrong: if a record starts inside what was claimed, it is the next one.
    """
    there = stream.need(min(length, MAX_BODY + _MAX_HEADER))
    inside = None
    if length <= there:
        if _ends_well(stream, length):
            block = bytes(stream.ahead[:length])
            stream.drop(length)
            return block, ""
        stream.need(length + 32)
        inside = _NEXT.search(stream.ahead, 0, length + 32)
        wrong = f"Content-Length {length}: no record starts after it"
    else:
        inside = _NEXT.search(stream.ahead)
        wrong = f"Content-Length {length}: the file ends after {there} bytes"
    if inside:
        stream.drop(inside.start() + 1)
        return None, f"Content-Length {length}: the next record starts after {inside.start() + 1} bytes"
    if length > there >= MAX_BODY:
        dropped = stream.drop(length)
        return None, "" if dropped == length else f"Content-Length {length}: the file ends after {dropped} bytes"
    stream.drop(min(length, there))
    if not stream.fault:
        _to_next_record(stream)
    return None, wrong


def _ends_well(stream: _Input, length: int) -> bool:
    """Whether a record starts after `length` bytes, or the file ends; reads into the next gzip member to know."""
    size = 32
    while True:
        there = stream.need(length + size)
        if stream.ahead.startswith(b"\r\n\r\n", length):
            return True  # whatever follows
        if stream.fault and stream.fault_position >= stream.position + length:
            return True  # the next member is the faulty one
        rest = bytes(stream.ahead[length : length + size]).lstrip(b"\r\n")
        if len(rest) >= 5 or there < length + size:
            return rest.startswith(b"WARC/") or not rest or (length == 0 and there == 0)
        size *= 2


def _to_next_record(stream: _Input) -> None:
    """Pass over what is no record, to the next line that starts one; at least one byte."""
    stream.drop(1)
    while True:
        there = stream.need(_CHUNK)
        if found := _NEXT.search(stream.ahead):
            stream.drop(found.start() + 1)
            return
        stream.drop(max(1, there - 64))
        if there < _CHUNK:
            stream.drop(64 if not stream.fault else 0)
            return


def _page(place: _Place, fields: Mapping[str, str], block: bytes) -> RawPage | Rejected:
    content_type, charset, body = fields.get("content-type", ""), "", block
    if fields["warc-type"].lower() == "response" and (
        block.startswith(b"HTTP/") or content_type.startswith("application/http")
    ):
        status = _STATUS.match(block)
        if status is None:
            return place.rejected("broken_record", f"no HTTP status: {block[:40]!r}")
        if status[1] != b"200":
            return place.rejected("http_status", status[1].decode())
        end = _BLANK_LINE.search(block)
        if end is None:
            return place.rejected("broken_record", "HTTP header without an end")
        http = _fields(block[: end.start()].partition(b"\n")[2])
        content_type = http.get("content-type", "")
        found = _kind(content_type, b"")
        if found and found not in _HTML and found != "text/plain":
            return place.rejected("not_html", found)
        decoded = _decoded(block[end.end() :], http)
        if isinstance(decoded, tuple):
            return place.rejected(*decoded)
        body = decoded
    if len(body) > MAX_BODY:
        return place.rejected("too_large", f"{len(body)} bytes; at most {MAX_BODY}")
    if declared := _CHARSET.search(content_type):
        charset = declared[1]
    kind = _kind(content_type, body)
    if kind not in _HTML and kind != "text/plain":
        return place.rejected("not_html", kind or "empty")
    return RawPage(
        source_file=place.file,
        source_offset=place.offset,
        source_record=place.record,
        url=place.url,
        date=_date(fields.get("warc-date", "")),
        content_type=kind,
        charset=charset,
        body=body,
        text=None,
        title="",
        doc_id="",
    )


def _kind(content_type: str, body: bytes) -> str:
    """The declared type; where it says nothing, that of the first bytes ('' of none)."""
    declared = content_type.partition(";")[0].strip().lower()
    if "/" in declared and declared not in {"application/octet-stream", "unknown/unknown"}:
        return declared
    return str(detect_mime(body[:4096])) if body else ""


def _decoded(body: bytes, http: Mapping[str, str]) -> bytes | tuple[str, str]:
    """The body without its transfer and content encodings, or (reason, detail).

    Crawlers often store the decoded body under the server's headers, so a body that does not begin as its encoding
    begins is taken as it is.
    """
    if "chunked" in http.get("transfer-encoding", "").lower() and _CHUNK_SIZE.match(body):
        try:
            body = _unchunked(body)
        except ValueError as e:
            return "bad_encoding", f"chunked: {e}"
    encodings = [e.strip().lower() for e in http.get("content-encoding", "").split(",")]
    for encoding in reversed([e for e in encodings if e not in ("", "identity")]):
        try:
            if encoding in ("gzip", "x-gzip"):
                body = _inflated(body, 31) if body.startswith(_GZIP) else body
            elif encoding == "deflate":  # zlib by the standard, bare deflate in the wild
                body = _inflated(body, 15 if body[:1] == b"\x78" else -15) if not _looks_like_text(body) else body
            elif encoding == "br":
                body = bytes(BrotliReader(io.BytesIO(body)).read(MAX_BODY + 1)) if not _looks_like_text(body) else body
            else:
                return "bad_encoding", f"unknown content encoding {encoding!r}"
        except (_IsalError, OSError, EOFError) as e:
            return "bad_encoding", f"{encoding}: {e}"
        if len(body) > MAX_BODY:
            return "too_large", f"more than {MAX_BODY} bytes when inflated"
    return body


def _looks_like_text(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


def _unchunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while size := _CHUNK_SIZE.match(body, at):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces)
        if size.end() + length > len(body):
            raise ValueError(f"chunk of {length} bytes at {at}, where {len(body) - size.end()} are left")
        pieces.append(body[size.end() : size.end() + length])
        at = size.end() + length
        at += 2 if body[at : at + 2] == b"\r\n" else body[at : at + 1] == b"\n"
    raise ValueError(f"no chunk size at {at}: {body[at : at + 16]!r}")


def _inflated(body: bytes, window: int) -> bytes:
    """At most MAX_BODY + 1 bytes of a compressed body."""
    inflater = isal_zlib.decompressobj(window)
    whole = bytes(inflater.decompress(body, MAX_BODY + 1))
    if not inflater.eof and len(whole) <= MAX_BODY:
        raise EOFError(f"ends after {len(whole)} bytes")
    return whole


def _date(value: str) -> str:
    """The date as given, if it is ISO 8601 (a year alone is enough in WARC/1.1), else ''."""
    if not _DATE.fullmatch(value):
        return ""
    if len(value) >= 10:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return ""
    return value


# JSONL, TSV and Parquet.


def _line_pages(
    path: Path, compressed: bool, name: str, parse: Callable[[str], Any], header: bool = False
) -> Iterator[RawPage | Rejected]:
    """A page per line that is not blank; without the first line if it is a `header`."""
    stream = _Input(path, compressed, b"")
    try:
        while True:
            place = _Place(name, stream.position)
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


def _line(stream: _Input) -> tuple[bytes | None, int]:
    """The next line, or None where it is too long to be read, and its size in bytes; (b'', 0) at the end."""
    searched = 0
    while (end := stream.ahead.find(b"\n", searched)) < 0:
        searched = len(stream.ahead)
        if searched > MAX_BODY or stream.need(searched + 1) == searched:
            break
    if end < 0 and searched > MAX_BODY:
        size = stream.drop(searched)
        while (end := stream.ahead.find(b"\n")) < 0 and (there := len(stream.ahead) or stream.need(1)):
            size += stream.drop(there)
        return None, size + stream.drop(end + 1)
    size = end + 1 if end >= 0 else searched
    line = bytes(stream.ahead[:size])
    stream.drop(size)
    return (line if size <= MAX_BODY else None), size


def _line_page(place: _Place, line: bytes, parse: Callable[[str], Any]) -> RawPage | Rejected:
    try:
        row = parse(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        return place.rejected("broken_json", f"{type(e).__name__}: {e}"[:200])
    if not isinstance(row, dict):
        return place.rejected("broken_json", f"{type(row).__name__} where an object was expected")
    return _row_page(place, row)


def _tsv_row(columns: list[str], line: str) -> dict[str, str]:
    try:
        values = next(csv.reader([line.rstrip("\r\n")], delimiter="\t"))
    except csv.Error as e:
        raise ValueError(str(e)) from e
    if len(values) != len(columns):
        raise ValueError(f"{len(values)} columns where {len(columns)} were expected")
    return dict(zip(columns, values, strict=True))


def _parquet_pages(path: Path, name: str) -> Iterator[RawPage | Rejected]:
    row = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            wanted = [c for c in file.schema_arrow.names if c in _COLUMNS]
            for batch in file.iter_batches(batch_size=256, columns=wanted):
                for values in batch.to_pylist():
                    yield _row_page(_Place(name, row), values)
                    row += 1
    except (pa.ArrowException, OSError) as e:
        yield _Place(name, row).rejected("broken_record", f"the file cannot be read from row {row} on: {e}"[:300])


_ID, _TEXT = ("id", "_id", "doc_id"), ("text", "contents", "body")
_COLUMNS = {*_ID, *_TEXT, "title", "url", "language", "date"}


def _row_page(place: _Place, row: Mapping[str, Any]) -> RawPage | Rejected:
    doc_id = next((_string(row[c]) for c in _ID if row.get(c) is not None), "")
    text = next((row[c] for c in _TEXT if isinstance(row.get(c), str)), None)
    url = _string(row.get("url"))
    if text is None:
        return _Place(place.file, place.offset, doc_id, url).rejected("missing_text", f"none of {', '.join(_TEXT)}")
    if len(text) > MAX_BODY:
        return _Place(place.file, place.offset, doc_id, url).rejected("too_large", f"{len(text)} characters")
    return RawPage(
        source_file=place.file,
        source_offset=place.offset,
        source_record=doc_id,
        url=url,
        date=_date(_string(row.get("date"))),
        content_type="text/plain",
        charset="",
        body=b"",
        text=_string(text),
        title=_string(row.get("title")),
        doc_id=doc_id,
        language=_string(row.get("language")),
    )


def _string(value: Any) -> str:
    """Strings and whole numbers as strings, without the lone surrogates that JSON can hold; '' of anything else."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    text = str(value)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
