"""The block of a WARC record -> a raw page: the HTTP status and header, the unpacked body, the media type."""

from __future__ import annotations

import re
from collections.abc import Mapping

from answermill.indexing.crawl.content_codings import BadCoding, unpacked
from answermill.indexing.crawl.media_types import (
    HTML,
    NOT_HTML,
    PLAIN,
    XHTML,
    declared_type,
    detail_of,
    is_xml,
    type_of,
)
from answermill.indexing.crawl.raw_page import MAX_BODY, Place, RawPage
from answermill.indexing.crawl.values import as_date
from answermill.schemas.corpus import Rejected

BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(rb"[\r\n\t ]*(?:HTTP(?:[/\d][^\s<]*)?|ICY)[ \t]+(\d{3})(?!\d)", re.IGNORECASE)
"""Status line as browsers read it, whatever version it names; radio servers call the protocol ICY."""
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? \d{3}\b")
"""Status line as the standard has it."""


def page(place: Place, fields: Mapping[str, str], block: bytes) -> RawPage | Rejected:
    """The page in the block of a WARC record with these header fields, or why it is refused."""
    kind = fields["warc-type"].lower()
    content_type, body = fields.get("content-type", ""), block
    identified = declared_type(fields.get("warc-identified-payload-type", ""))
    if _has_http_header(kind, content_type, block):
        response = _response(place, block)
        if isinstance(response, Rejected):
            return response

        http, body = response
        content_type = http.get("content-type", "")
        declared = declared_type(content_type)
        if declared.name and not _may_be_page(declared.name) and identified.name not in (HTML, XHTML):
            return place.rejected(NOT_HTML, detail_of(NOT_HTML, declared.name))

        try:
            body = unpacked(body, http.get("content-encoding", ""), http.get("transfer-encoding", ""))
        except BadCoding as e:
            return place.rejected("bad_encoding", str(e))

    # A record that is no response has no HTTP header: its own type counts.
    if len(body) > MAX_BODY:
        return place.rejected("too_large", f"more than {MAX_BODY} bytes")

    declared = declared_type(content_type)
    is_conversion = kind == "conversion" and declared.name == PLAIN
    media_type = PLAIN if is_conversion else type_of(declared.name, identified.name, body)
    if media_type not in (HTML, XHTML, PLAIN):
        return place.rejected(NOT_HTML, detail_of(NOT_HTML, media_type) if media_type else "empty")

    return RawPage(
        source_file=place.file,
        source_offset=place.offset,
        source_record=place.record,
        url=place.url,
        date=as_date(fields.get("warc-date", "")),
        content_type=media_type,
        charset=declared.charset,
        body=body,
        text=None,
        title="",
        doc_id="",
        is_conversion=is_conversion,
        likely_charset="" if declared.charset else declared.likely_charset or identified.charset,
    )


def _may_be_page(name: str) -> bool:
    """True for a declared type that is read, or whose bytes must be looked at."""
    return name in (HTML, PLAIN) or is_xml(name)


def _has_http_header(kind: str, content_type: str, block: bytes) -> bool:
    """True if the block is what a server sent. That of a response is, in whatever form its status stands; a
    resource without a type only if it begins as HTTP does, since a text may begin with "HTTP 404"; and a
    conversion never is."""
    if kind == "response":
        return content_type.lower().startswith("application/http") or _STATUS.match(block) is not None
    return kind != "conversion" and not content_type and _STATUS_LINE.match(block) is not None


def _response(place: Place, block: bytes) -> tuple[dict[str, str], bytes] | Rejected:
    """Header and body of the last response of a block: interim ones (1xx) stand before it, and a proxy's
    answer to CONNECT, which has no body."""
    while True:
        status = _STATUS.match(block)
        if status is None:
            return place.rejected("broken_record", f"no HTTP status: {block[:40]!r}")

        end = BLANK_LINE.search(block, status.end())  # blank lines before it are none of the header's ends
        is_interim = status[1].startswith(b"1") and status[1] != b"101"
        if end is not None and (
            is_interim or _is_connected(status[1], block[: end.start()], block[end.end() :])
        ):
            block = block[end.end() :]
            continue

        if status[1] != b"200":
            return place.rejected("http_status", status[1].decode())
        if end is None:
            return place.rejected("broken_record", "HTTP header without an end")
        fields = header_fields(block[status.end() : end.start()].partition(b"\n")[2], joined=True)
        return fields, block[end.end() :]


def _is_connected(status: bytes, header: bytes, body: bytes) -> bool:
    """True for the answer of a proxy that is connected now: another response follows it."""
    is_bare = status.startswith(b"2") and b"\ncontent-type" not in header.lower()
    return is_bare and _STATUS_LINE.match(body) is not None


def header_fields(lines: bytes, joined: bool = False) -> dict[str, str]:
    """Fields of 'Name: value' lines, names in lower case. A line that starts with a blank continues the one
    before. Of a name that comes again, the first counts, or all values are one list (`joined`)."""
    fields: dict[str, str] = {}
    for line in re.sub(rb"\r?\n[ \t]+", b" ", lines).splitlines():
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        if colon and _NAME.fullmatch(name):
            key, text = name.decode("ascii").lower(), _text(value.strip())
            fields[key] = f"{fields[key]}, {text}" if joined and key in fields else fields.get(key, text)
    return fields


def _text(value: bytes) -> str:
    """Decode a header's value: UTF-8 by the WARC standard, Latin-1 in the wild."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
