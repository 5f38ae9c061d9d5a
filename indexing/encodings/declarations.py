"""The encoding that a page declares in its own bytes: the prescan of the HTML standard (13.2.3.2), and the
declaration of XML.

The standard looks at the first 1,024 bytes, and takes a declaration further down when its parser comes to
it; here that is a second look, which passes over the content of scripts, styles and the like, as parsers do.
"""

from __future__ import annotations

import re

from answermill.indexing.encodings.decoders import encoding_of

_FIRST, _LAST = 1_024, 65_536  # bytes
_BLANK = rb"[\t\n\f\r ]"
_TAGS = (
    rb"<!(?=--)(?:.*?-->|.*)"  # a comment, whose dashes may be those of its beginning
    rb"|<(?P<meta>meta)(?=[\t\n\f\r /])|(?P<tag></?[a-z][^\t\n\f\r >]*)|<[!/?](?:[^>]*>|.*)"
)
_TOKEN = re.compile(_TAGS, re.IGNORECASE | re.DOTALL)
_RAW = (
    rb"<(?P<raw>script|style|title|textarea|xmp|iframe|noembed|noframes)(?=[\t\n\f\r />])"
    rb".*?(?:</(?P=raw)|\Z)|"
)
_LATE_TOKEN = re.compile(_RAW + _TAGS, re.IGNORECASE | re.DOTALL)
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r />=]*)"
    rb"(?:%b*=%b*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r >\"'][^\t\n\f\r >]*)?))?" % (_BLANK, _BLANK)
)
_CHARSET = re.compile(
    rb"charset%b*=%b*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"'][^\t\n\f\r ;]*))" % (_BLANK, _BLANK),
    re.IGNORECASE,
)
_XML = re.compile(rb"<\?xml[^>]*?encoding[\0- ]*=[\0- ]*(?:\"([^\">]*)\"|'([^'>]*)')")
_UTF_16_XML = {b"<\0?\0x\0": "utf-16-le", b"\0<\0?\0x": "utf-16-be"}


def declared_encoding(body: bytes, is_xml: bool) -> str:
    """Name of the encoding that the page declares; '' if it declares none that the standard knows.

    >>> declared_encoding(b"<!-- <meta charset=koi8-r> --><META charset='Windows-1251'>", is_xml=False)
    'cp1251'
    """
    in_meta = _in_meta(_TOKEN, body[:_FIRST])
    return (
        _UTF_16_XML.get(body[:6], "")
        or (_in_xml(body) if is_xml else in_meta)
        or (in_meta if is_xml else _in_xml(body))
        or _in_meta(_LATE_TOKEN, body[:_LAST])
    )


def _in_xml(body: bytes) -> str:
    declaration = _XML.match(body)
    return _ascii_compatible(declaration[1] or declaration[2] or b"") if declaration else ""


def _in_meta(tokens: re.Pattern[bytes], body: bytes) -> str:
    position = 0
    while token := tokens.search(body, position):
        position = token.end()
        if not (token["meta"] or token["tag"]):
            continue

        attributes: dict[bytes, bytes] = {}
        while attribute := _ATTRIBUTE.match(body, position):
            position = attribute.end()
            attributes.setdefault(attribute[1].lower(), attribute[2] or attribute[3] or attribute[4] or b"")
        if token["meta"] and (encoding := _of_meta(attributes)):
            return encoding

    return ""


def _of_meta(attributes: dict[bytes, bytes]) -> str:
    """Encoding of a <meta>: by `charset`, or by `content` beside http-equiv="content-type"."""
    if (label := attributes.get(b"charset")) is not None:
        return _ascii_compatible(label)
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return ""
    charset = _CHARSET.search(attributes.get(b"content", b""))
    return _ascii_compatible(charset[1] or charset[2] or charset[3] or b"") if charset else ""


def _ascii_compatible(label: bytes) -> str:
    """Encoding of a label that was read as ASCII, so that it cannot be UTF-16: the standard takes UTF-8 for
    that."""
    encoding = encoding_of(label.decode("latin-1"))
    return {"utf-16-le": "utf-8", "utf-16-be": "utf-8", "x-user-defined": "cp1252"}.get(encoding, encoding)
