"""XHTML that is served as XML, written as HTML: where the two read the same characters otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

_VOID = re.compile(
    "area|base|basefont|bgsound|br|col|embed|frame|hr|img|input|keygen|link|meta|param|source|track|wbr", re.I
)
# In XML no `<` stands in the value of an attribute, so that each tag ends before the next one.
_TOKEN = re.compile(
    r"<!--(?:.*?-->|.*)"
    r"|<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)"
    r"|<\?(?:.*?\?>|.*)"
    r"|&(?P<entity>[A-Za-z_][\w.-]*);"
    r"|<(?P<name>[A-Za-z_][^\s<>/\"']*)(?P<attributes>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*?)/>",
    re.DOTALL,
)
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[<>]*\[.*?\]\s*>", re.DOTALL)
_PREFIX = re.compile(
    r"\sxmlns:([\w.-]+)\s*=\s*[\"']http://www\.w3\.org/(?:1999/xhtml|2000/svg|1998/Math/MathML)[\"']"
)
"""Prefix of elements that a parser of HTML knows by their names alone."""
_PREFIXED = re.compile(r"<(/?)([\w.-]+):")
_ENTITY = re.compile(r"<!ENTITY\s+([A-Za-z_][\w.-]*)\s+(?:\"([^\"]*)\"|'([^']*)')\s*>")
_REFERENCE = re.compile(r"&([A-Za-z_][\w.-]*);")
_MOST, _LONGEST, _NESTED = 200, 500, 3
"""Entities that are read, characters of each, and times that those inside others are."""
_HEAD = 65_536
"""Characters of a page in which its prefixes are looked for."""
_GROWTH = 1_000_000
"""Characters by which entities make a page longer, at the most."""


def as_html(page: str) -> str:
    """The page for a parser of HTML: empty elements have an end tag, the text of CDATA is escaped, the page's
    own entities are replaced, and processing instructions and the prefix of the elements are left out.

    >>> as_html('<?xml version="1.0"?><div><script src="a"/><br/><![CDATA[1 < 2]]></div>')
    '<div><script src="a"></script><br/>1 &lt; 2</div>'
    """
    if known := frozenset(_PREFIX.findall(page[:_HEAD])):
        page = _PREFIXED.sub(lambda tag: f"<{tag[1]}" if tag[2] in known else tag[0], page)

    entities: dict[str, str] = {}
    if (start := page.find("<!DOCTYPE")) >= 0 and (declared := _DOCTYPE.match(page, start)):
        entities = _entities(declared[0])
        page = f"{page[:start]}<!DOCTYPE html>{page[declared.end() :]}"

    left = _GROWTH

    def written(token: re.Match[str]) -> str:
        nonlocal left
        if token["entity"] is None:
            return _written(token)
        text = entities.get(token["entity"], token[0])
        left -= len(text) - len(token[0])
        return text if left >= 0 else token[0]

    return _TOKEN.sub(written, page)


def _entities(declarations: str) -> dict[str, str]:
    """Name → text of entities, with the text of those that stand in it; the first declaration counts."""
    texts: dict[str, str] = {}
    for name, double, single in _ENTITY.findall(declarations)[:_MOST]:
        texts.setdefault(name, (double or single)[:_LONGEST])
    for _ in range(_NESTED if texts else 0):
        texts = {name: _filled(text, texts)[:_LONGEST] for name, text in texts.items()}
    return texts


def _filled(text: str, entities: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda reference: entities.get(reference[1], reference[0]), text)


def _written(token: re.Match[str]) -> str:
    if token["text"] is not None:
        return escape(token["text"], quote=False)
    if not token["name"]:
        return ""  # a comment or an instruction
    name = token["name"]
    return token[0] if _VOID.fullmatch(name) else f"<{name}{token['attributes']}></{name}>"
