"""The media type of a page, as browsers take it: from its header by the Fetch standard, else from its first
bytes by the table of the MIME Sniffing standard."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

from resiliparse.parse.encoding import detect_mime

HTML, XHTML, PLAIN = "text/html", "application/xhtml+xml", "text/plain"
NOT_HTML, NOT_WANTED = "not_html", "media_type"
ADVICE = {
    NOT_HTML: "ingest.media_types cannot name it",
    NOT_WANTED: "ingest.media_types can name it",
}
"""Reasons of rejects whose detail begins with a media type, one that is never read, or that the job does not
want → what follows it."""
HEAD = 1_445
"""Bytes of a body that the standard looks at."""

_UNDECLARED = ("application/octet-stream", "binary/octet-stream", "unknown/unknown", "application/unknown")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = re.compile(r'(?:"(?:[^"\\]|\\.)*"?|[^,"])+')  # of a list, between commas that are not quoted
_TYPE = re.compile(rf"({_TOKEN}/{_TOKEN})[\t\n\r ]*(?=;|\Z)")
_LOOSE_TYPE = re.compile(rf"({HTML}|{re.escape(XHTML)})(?=[\t\n\r ])", re.IGNORECASE)
"""Type with something else behind it, which the standard takes for none and browsers for what it is."""
_PARAMETER = re.compile(r';[\t\n\r ]*([^;=]*)(?:=(?:"((?:[^"\\]|\\.)*)"?[^;]*|([^;]*)))?')
_ANY_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_BINARY = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TAG = re.compile(
    rb"[\t\n\f\r ]*<(?:!--|(?:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY"
    rb"|BR|P)[\t\n\f\r >])",
    re.IGNORECASE,
)
_PROLOG = rb"[\t\n\f\r ]*<\?xml\b"
_XML_ROOT = re.compile(
    rb"(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>)*+<(?:[\w.-]+:)?html(?=[\s>])([^>]*)",
    re.DOTALL | re.IGNORECASE,
)
_FEED = re.compile(
    rb"(?>[\t\n\f\r ]+|<!--.*?-->|<!.*?>|<\?.*?\?>)*+<(?:rss|feed|rdf:RDF(?=.*http://purl\.org/rss/1\.0/)"
    rb"(?=.*http://www\.w3\.org/1999/02/22-rdf-syntax-ns#))",
    re.DOTALL,
)
"""Start of a feed, which servers often call HTML."""
_NAMESPACE = b"http://www.w3.org/1999/xhtml"


class MediaType(NamedTuple):
    """A type in lower case, such as 'text/html'; '' if none is known."""

    name: str
    charset: str
    """Of the header, or of an earlier value in it."""
    likely_charset: str = ""
    """Of a header without a charset that browsers would follow: one that is written otherwise than they read
    it, or with a type that says nothing."""


def declared_type(header: str) -> MediaType:
    """The media type that a Content-Type header declares: the last valid one in its list, with the charset of
    an earlier one of the same type if it has none (Fetch, "extract a MIME type").

    >>> declared_type("text/html; charset=koi8-r, TEXT/HTML")
    MediaType(name='text/html', charset='koi8-r', likely_charset='')
    >>> declared_type("text/html charset=x")
    MediaType(name='text/html', charset='', likely_charset='x')
    """
    name = charset = ""
    for value in (item.strip("\t\n\r ") for item in _VALUE.findall(header)):
        match = _TYPE.match(value) or _LOOSE_TYPE.match(value)
        if match is None or match[1] == "*/*":
            continue
        own = next((text for key, text in _parameters(value) if key == "charset" and text), "")
        if own or match[1].lower() != name:
            charset = own
        name = match[1].lower()

    likely = ""
    if name in _UNDECLARED:
        name, charset, likely = "", "", charset
    if not charset and (loose := _ANY_CHARSET.search(header)):
        likely = loose[1]
    return MediaType(name, charset, likely)


def _parameters(value: str) -> Iterator[tuple[str, str]]:
    for name, quoted, plain in _PARAMETER.findall(value):
        yield name.lower(), (quoted or plain).strip("\t\n\r ")


def detail_of(reason: str, name: str) -> str:
    """The detail of a reject that is refused for its media type.

    >>> detail_of("media_type", "text/plain")
    'text/plain; ingest.media_types can name it'
    """
    return f"{name}; {ADVICE[reason]}"


def refused_type(detail: str) -> str:
    """The media type in such a detail."""
    return detail.partition(";")[0]


def sniffed_type(body: bytes) -> str:
    """The media type that the first bytes look like; '' for no bytes.

    The standard takes a page behind a byte order mark, or behind the prolog of XML, for no HTML; here it is.

    >>> sniffed_type(b" <p>Tea."), sniffed_type(b"Tea <p>."), sniffed_type(b"%PDF-1.5")
    ('text/html', 'text/plain', 'application/pdf')
    """
    if not body:
        return ""
    head = without_mark(body[:HEAD])
    if _TAG.match(head):
        return HTML
    if re.match(_PROLOG, head):
        root = _XML_ROOT.match(body[:65_536])
        return "text/xml" if root is None else XHTML if _NAMESPACE in root[1] else HTML
    name = str(detect_mime(head))
    if name not in (HTML, XHTML, PLAIN, "application/octet-stream"):
        return name
    return "application/octet-stream" if is_binary(body[:HEAD]) else PLAIN


def type_of(declared: str, identified: str, body: bytes) -> str:
    """The media type of a body: as declared, else as its crawler `identified` it, else as it looks; '' for an
    empty body of an unknown type."""
    name = declared or identified or sniffed_type(body)
    if is_xml(name) and (root := _XML_ROOT.match(body[:65_536])) and _NAMESPACE in root[1]:
        return XHTML
    if name == HTML and _FEED.match(without_mark(body[:HEAD])):
        return "text/xml"
    if name == PLAIN and is_binary(body[:HEAD]):
        return "application/octet-stream"  # servers call so what they do not know
    if name not in (HTML, XHTML, PLAIN) and identified in (HTML, XHTML):
        looks = sniffed_type(body)
        return looks if looks in (HTML, XHTML) else name
    return name


def is_xml(name: str) -> bool:
    """True for the types whose pages browsers parse as XML."""
    return name in ("text/xml", "application/xml") or name.endswith("+xml")


def is_binary(head: bytes) -> bool:
    """True if a byte is none of a text; UTF-16 shows by its mark that it is text."""
    return not head.startswith(_UTF_16) and _BINARY.search(head) is not None


def without_mark(head: bytes) -> bytes:
    """The bytes without a byte order mark, and without the NULs of UTF-16 if the mark is of that."""
    if head.startswith(_UTF_16):
        return head[2:].replace(b"\0", b"")
    return head.removeprefix(codecs.BOM_UTF8)
