"""XHTML that is served as XML, written as HTML: where the two read the same characters otherwise."""

from __future__ import annotations

import re
from html import escape

_VOID = re.compile(
    "area|base|basefont|bgsound|br|col|embed|frame|hr|img|input|keygen|link|meta|param|source|track|wbr", re.I
)
# In XML no `<` stands in the value of an attribute, so that each tag ends before the next one.
_TOKEN = re.compile(
    r"<!--(?:.*?-->|.*)"
    r"|<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)"
    r"|<\?(?:.*?\?>|.*)"
    r"|<(?P<name>[A-Za-z_][^\s<>/\"']*)(?P<attributes>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*?)/>",
    re.DOTALL,
)
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[<>]*\[.*?\]\s*>", re.DOTALL)
_PREFIX = re.compile(r"(?>\s+|<[?!][^>]*>)*+<([\w.-]+):html[\s>]")


def as_html(page: str) -> str:
    """The page for a parser of HTML: empty elements have an end tag, the text of CDATA is escaped, and
    processing instructions and the prefix of the elements are left out.

    >>> as_html('<?xml version="1.0"?><div><script src="a"/><br/><![CDATA[1 < 2]]></div>')
    '<div><script src="a"></script><br/>1 &lt; 2</div>'
    """
    if prefix := _PREFIX.match(page):
        page = re.sub(rf"<(/?){re.escape(prefix[1])}:", r"<\1", page)
    if (start := page.find("<!DOCTYPE")) >= 0 and (declared := _DOCTYPE.match(page, start)):
        page = f"{page[:start]}<!DOCTYPE html>{page[declared.end() :]}"
    return _TOKEN.sub(_written, page)


def _written(token: re.Match[str]) -> str:
    if token["text"] is not None:
        return escape(token["text"], quote=False)
    if not token["name"]:
        return ""  # a comment or an instruction
    name = token["name"]
    return token[0] if _VOID.fullmatch(name) else f"<{name}{token['attributes']}></{name}>"
