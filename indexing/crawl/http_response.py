"""The block of a WARC record -> a raw page: the HTTP status and header, transfer and content encodings, the
media type."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

from fastwarc.stream_io import BrotliReader
from isal import isal_zlib
from resiliparse.parse.encoding import detect_mime

from answermill.indexing.crawl.gzip_stream import GZIP
from answermill.indexing.crawl.raw_page import MAX_BODY, Place, RawPage, date
from answermill.schemas.corpus import Rejected

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

_HTML = {"text/html", "application/xhtml+xml"}
BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})\b")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


def page(place: Place, fields: Mapping[str, str], block: bytes) -> RawPage | Rejected:
    """The page in the block of a WARC record with these header fields, or why it is refused."""
    content_type, charset, body = fields.get("content-type", ""), "", block
    if fields["warc-type"].lower() == "response" and (
        block.startswith(b"HTTP/") or content_type.startswith("application/http")
    ):
        status = _STATUS.match(block)
        if status is None:
            return place.rejected("broken_record", f"no HTTP status: {block[:40]!r}")
        if status[1] != b"200":
            return place.rejected("http_status", status[1].decode())

        end = BLANK_LINE.search(block)
        if end is None:
            return place.rejected("broken_record", "HTTP header without an end")

        http = header_fields(block[: end.start()].partition(b"\n")[2])
        content_type = http.get("content-type", "")
        declared_kind = _kind(content_type, b"")
        if declared_kind and declared_kind not in _HTML and declared_kind != "text/plain":
            return place.rejected("not_html", declared_kind)

        decoded = _decoded(block[end.end() :], http)
        if isinstance(decoded, tuple):
            return place.rejected(*decoded)

        body = decoded

    # A record that is no response has no HTTP header: its own type counts.
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
    """The declared media type; if none is declared, the one that the first bytes look like ('' for no
    bytes)."""
    declared = content_type.partition(";")[0].strip().lower()
    if "/" in declared and declared not in {"application/octet-stream", "unknown/unknown"}:
        return declared
    return str(detect_mime(body[:4096])) if body else ""


def _decoded(body: bytes, http: Mapping[str, str]) -> bytes | tuple[str, str]:
    """The body without its transfer and content encodings, or (reason, detail).

    Crawlers often store the decoded body with the server's headers, so a body that does not begin as its
    encoding begins is used as it is.
    """
    if "chunked" in http.get("transfer-encoding", "").lower() and _CHUNK_SIZE.match(body):
        try:
            body = _unchunked(body)
        except ValueError as e:
            return "bad_encoding", f"chunked: {e}"

    # The encoding that was applied last is the first to be undone.
    encodings = [e.strip().lower() for e in http.get("content-encoding", "").split(",")]
    for encoding in reversed([e for e in encodings if e not in ("", "identity")]):
        try:
            if encoding in ("gzip", "x-gzip"):
                body = _inflated(body, 31) if body.startswith(GZIP) else body
            elif encoding == "deflate":  # zlib by the standard, bare deflate in the wild
                body = (
                    _inflated(body, 15 if body[:1] == b"\x78" else -15)
                    if not _looks_like_text(body)
                    else body
                )
            elif encoding == "br":
                body = (
                    bytes(BrotliReader(io.BytesIO(body)).read(MAX_BODY + 1))
                    if not _looks_like_text(body)
                    else body
                )
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
    """The joined chunks of a chunked body. Raises ValueError with the offset of a chunk that is wrong."""
    pieces: list[bytes] = []
    offset = 0
    while size := _CHUNK_SIZE.match(body, offset):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces)
        if size.end() + length > len(body):
            raise ValueError(f"chunk of {length} bytes at {offset}, where {len(body) - size.end()} are left")
        pieces.append(body[size.end() : size.end() + length])
        offset = size.end() + length
        offset += 2 if body[offset : offset + 2] == b"\r\n" else body[offset : offset + 1] == b"\n"
    raise ValueError(f"no chunk size at {offset}: {body[offset : offset + 16]!r}")


def _inflated(body: bytes, window: int) -> bytes:
    """A compressed body inflated, at most MAX_BODY + 1 bytes of it."""
    inflater = isal_zlib.decompressobj(window)
    whole = bytes(inflater.decompress(body, MAX_BODY + 1))
    if not inflater.eof and len(whole) <= MAX_BODY:
        raise EOFError(f"ends after {len(whole)} bytes")
    return whole


def header_fields(lines: bytes) -> dict[str, str]:
    """Fields of 'Name: value' lines: the first of a name counts, and a line that starts with a blank
    continues the one before."""
    fields: dict[str, str] = {}
    for line in re.sub(rb"\r?\n[ \t]+", b" ", lines).splitlines():
        name, colon, value = line.partition(b":")
        if colon and _NAME.fullmatch(name):
            fields.setdefault(name.decode("ascii").lower(), _text(value.strip()))
    return fields


def _text(value: bytes) -> str:
    """Decode a header's value: UTF-8 by the WARC standard, Latin-1 in the wild."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
