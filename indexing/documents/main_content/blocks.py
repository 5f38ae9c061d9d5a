"""A parsed page -> its blocks of text, each with how much of it is links, and the block-level elements around
them.

Resiliparse (lexbor) parses the page, so that any HTML becomes a tree, and writes the tree as HTML, in which
every element is closed and no attribute contains '<' or '>'. One regular expression then reads it, several
times as fast as a walk over its nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from answermill.indexing.documents.main_content.hints import TAGS, Hint, hint_of

_NO_TEXT = (
    "script, style, template, svg, iframe, select, object, video, audio, canvas, button, textarea, math "
    "annotation, "
    "noembed, noframes"
)
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_TAG = re.compile("<(/?)([^\\s<>]+)([^<>]*)>([^<]*)")
"""A tag, its attributes, and the text that follows it."""
_BREAK = "\x1e"  # a line's end in a block; a line end in HTML is a blank
_CELLS = frozenset({"td", "th"})
_BLOCK_LEVEL = """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form
    frameset h1 h2 h3 h4 h5 h6 header hgroup legend li main menu nav noscript ol optgroup option p pre search section summary
    table tbody td tfoot th thead tr ul"""
_ELEMENTS = frozenset(_BLOCK_LEVEL.split())
"""All other elements are part of a block."""
_HINTS = 20_000  # attributes whose hints are remembered


@dataclass(slots=True)
class TextBlock:
    """A run of text without a block-level element in it: a paragraph, heading, list item, or row of a
    table."""

    element: int
    """Number of the innermost element that holds it, from 0."""
    text: str
    """Its lines, white space folded."""
    size: int
    """UTF-8 bytes of the text: a sentence of a language that writes words as one letter has about as many as
    in English."""
    linked: int
    """Bytes of the text in links, about."""


@dataclass(slots=True)
class Elements:
    """The block-level elements of a page in document order, a parent before its children; the first is the
    page."""

    parents: list[int]
    """Number of each element's parent; -1 for the first."""
    names: list[str]
    hints: list[Hint]


@dataclass(slots=True)
class Cursor:
    """A place in a page that is being read: the elements and blocks before it, and the block at it."""

    blocks: list[TextBlock] = field(default_factory=list)
    elements: Elements = field(default_factory=lambda: Elements([-1], ["page"], [Hint.NONE]))
    path: list[int] = field(default_factory=lambda: [0])
    """Numbers of the elements that are open, the innermost last."""
    pieces: list[str] = field(default_factory=list)
    """The block's text so far."""
    linked: int = 0
    """Bytes of that text in links."""
    in_link: bool = False
    preformatted: int = 0
    """Open <pre>, in which a line end is one."""

    def open(self, name: str, hint: Hint) -> None:
        """Enter a new element."""
        self.preformatted += name == "pre"
        elements = self.elements
        elements.parents.append(self.path[-1])
        elements.names.append(name)
        elements.hints.append(hint)
        self.path.append(len(elements.parents) - 1)

    def close(self, name: str) -> None:
        """Leave the innermost element."""
        self.preformatted -= name == "pre"
        if len(self.path) > 1:  # <xmp> and <plaintext> hold text that looks like tags
            self.path.pop()

    def add(self, text: str) -> None:
        """Append text to the block."""
        self.pieces.append(text.replace("\n", _BREAK) if self.preformatted else text)
        if self.in_link:
            self.linked += _bytes(text.strip())

    def join(self, by: str) -> None:
        """Separate the block's text, if it has any, from the text that follows."""
        if self.pieces:
            self.pieces.append(by)

    def flush(self) -> None:
        """End the block, if it has begun."""
        if not self.pieces:
            return

        text = "".join(self.pieces)
        if "&" in text:
            text = unescape(text)
        if _BREAK in text:
            text = "\n".join(filter(None, (" ".join(line.split()) for line in text.split(_BREAK))))
        else:
            text = " ".join(text.split())

        if text:
            self.blocks.append(TextBlock(self.path[-1], text, _bytes(text), self.linked))
        self.pieces, self.linked = [], 0


class BlockReader:
    """Reads pages; it remembers the hints of attributes, of which the pages of a site share many."""

    def __init__(self) -> None:
        self._hints: dict[str, Hint] = {}

    def read(self, tree: Any) -> tuple[list[TextBlock], Elements]:
        """The blocks of a Resiliparse tree, in their order, and its elements; the tree loses scripts, buttons
        and the like."""
        cursor = Cursor()
        if (body := tree.body) is None:
            return cursor.blocks, cursor.elements

        for element in body.query_selector_all(_NO_TEXT).values():
            element.decompose()

        for closes, name, attributes, text in _TAG.findall(_COMMENT.sub("", body.html)):
            if name in _ELEMENTS:
                if name in _CELLS:  # cells of a row stand beside each other
                    cursor.join(" ")
                elif cursor.pieces:
                    cursor.flush()
                if closes:
                    cursor.close(name)
                else:
                    cursor.open(name, TAGS.get(name) or self._hint(attributes))
            elif name == "a":
                cursor.in_link = not closes and "href" in attributes
            elif name == "br":
                cursor.join(_BREAK)
            elif name == "hr":
                cursor.flush()

            if text and (cursor.pieces or not text.isspace()):  # blanks begin no block
                cursor.add(text)

        cursor.flush()
        return cursor.blocks, cursor.elements

    def _hint(self, attributes: str) -> Hint:
        hint = self._hints.get(attributes)
        if hint is None:
            if len(self._hints) >= _HINTS:
                self._hints.clear()
            hint = self._hints[attributes] = hint_of(attributes)
        return hint


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
