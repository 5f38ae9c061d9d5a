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

import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from fastwarc.stream_io import BrotliReader
from isal import isal_zlib
from resiliparse.parse.encoding import detect_mime

from indexing.crawl.gzip_stream import CHUNK, GZIP, Input, inflated_head, inflates
from indexing.crawl.raw_page import MAX_BODY, Place, RawPage, date
from indexing.crawl.rows import line_pages, parquet_pages, tsv_row
from schemas.corpus import Rejected

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

_MAX_HEADER = 65_536  # bytes of the WARC header of a record

_PAGES = {"response", "resource", "conversion"}
_OTHERS = {"request", "warcinfo", "metadata", "revisit", "continuation"}
_HTML = {"text/html", "application/xhtml+xml"}
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


def read_pages(path: Path, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """The pages of a file, in its order. `name` becomes source_file; `skipped` counts WARC records that are no pages.

    The content decides the format, and the suffix where it cannot. A format that is known but not read gives one
    Rejected, so that a job goes on; an unknown one raises ValueError.
    """
    with path.open("rb") as file:
        head = file.read(CHUNK)
    damaged = path.suffix == ".gz" and GZIP in head and not head.startswith(b"WARC/")  # at its very start
    compressed = head.startswith(GZIP) or damaged
    if compressed:
        head = inflated_head(head)
    suffixes = [s.lower() for s in path.suffixes]
    for magic, kind in _UNSUPPORTED.items():
        if head.startswith(magic):
            detail = f"{kind} is not read; give WARC, WET, JSONL, TSV or Parquet, plain or .gz"
            return iter([Place(name, 0).rejected("unsupported_format", detail)])
    if head.startswith(b"PAR1"):
        return parquet_pages(path, name)
    if not compressed and not head:
        return iter(())
    if head.startswith(b"WARC/") or {".warc", ".wet", ".wat"} & set(suffixes):
        return _warc_pages(path, compressed, name, skipped)
    if {".jsonl", ".ndjson", ".json"} & set(suffixes) or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return line_pages(path, compressed, name, json.loads)
    if ".tsv" in suffixes and head.startswith(b"id\ttext"):
        columns = head.split(b"\n", 1)[0].decode().strip().split("\t")
        return line_pages(path, compressed, name, lambda line: tsv_row(columns, line), header=True)
    if not head and inflates(path):
        return iter(())
    raise ValueError(
        f"{path}: unknown format (starts with {head[:16]!r}); known: WARC and WET (.warc, .wet), JSONL (.jsonl), "
        "TSV whose first line is 'id<tab>text<tab>title', Parquet (.parquet)"
    )


def _warc_pages(path: Path, compressed: bool, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    stream = Input(path, compressed, b"WARC/")
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


def _faulty_member(stream: Input, name: str, skipped: Counter[str]) -> Iterator[Rejected]:
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


def _record(stream: Input, name: str, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
    """One record; afterwards the stream is at the next, or at a fault."""
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


def _header(stream: Input) -> bytes:
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


def _place(name: str, offset: int, fields: Mapping[str, str]) -> Place:
    return Place(name, offset, fields.get("warc-record-id", ""), fields.get("warc-target-uri", "").strip("<>"))


def _block(stream: Input, length: int) -> tuple[bytes | None, str]:
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


def _ends_well(stream: Input, length: int) -> bool:
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


def _to_next_record(stream: Input) -> None:
    """Pass over what is no record, to the next line that starts one; at least one byte."""
    stream.drop(1)
    while True:
        there = stream.need(CHUNK)
        if found := _NEXT.search(stream.ahead):
            stream.drop(found.start() + 1)
            return
        stream.drop(max(1, there - 64))
        if there < CHUNK:
            stream.drop(64 if not stream.fault else 0)
            return


def _page(place: Place, fields: Mapping[str, str], block: bytes) -> RawPage | Rejected:
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
        date=date(fields.get("warc-date", "")),
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
                body = _inflated(body, 31) if body.startswith(GZIP) else body
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
