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

from answermill.indexing.documents.main_content.hints import NO_SIGNS, TAGS, Signs, signs_of
from answermill.indexing.documents.main_content.markup import NAMING, shown_body
from answermill.schemas.scripts import TERMINAL_SET

_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_TAG = re.compile("<(/?)([^\\s<>]+)([^<>]*)>([^<]*)")
"""A tag, its attributes, and the text that follows it."""
_BREAK = "\x1e"  # a line's end in a block; a line end in HTML is a blank
_GLUE = "\x1f"  # a tag inside a block
_BOX = "\x1d"  # a picture or control: no word goes on behind it
_BOXED = re.compile(rf"(?<=[\w.!?…]){_GLUE}*+{_BOX}[{_GLUE}{_BOX}]*+(?=\w)")
_GLUED = re.compile(rf"{_GLUE}(?<=[^\W\d_]{{2}}[.!?…]{_GLUE}){_GLUE}*(?=[^\W\d_a-z])")
_CELLS = frozenset({"td", "th"})
_PREFORMATTED = frozenset({"pre", "listing"})
_BLOCK_LEVEL = """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form
    frameset h1 h2 h3 h4 h5 h6 header hgroup legend li listing main menu nav noscript ol optgroup option p pre search section summary
    table tbody td tfoot th thead tr ul"""
_ELEMENTS = frozenset(_BLOCK_LEVEL.split())
"""All other elements are part of a block, but custom elements and buttons may be one."""
_CONTROLS = re.compile(r' (?:href="#|aria-controls="|data-(?:bs-)?target="#)([^"]+)"')
_SENTENCE = re.compile(rf"[.!?…{TERMINAL_SET}][\"'”’»)\]]*$")
_SENTENCE_LINK = 80  # bytes in a link from which they may be a sentence
_SIGNS = 20_000  # attributes whose signs are remembered


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
    first_link: str = ""
    """Attributes of the link that the text begins in; '' if it begins in none."""
    last_link: str = ""
    """Attributes of the link that the text ends in."""


@dataclass(slots=True)
class Elements:
    """The block-level elements of a page in document order, a parent before its children; the first is the
    page."""

    parents: list[int]
    """Number of each element's parent; -1 for the first."""
    names: list[str]
    signs: list[Signs]
    firsts: list[int]
    """Number of blocks before each element."""
    afters: list[int]
    """Number of blocks before each element's end."""
    ends: list[int]
    """Number of the first element after each element's end."""
    controlled: set[str] = field(default_factory=set)
    """Ids of elements that a link or button of the page opens, or leads to."""


@dataclass(slots=True)
class Cursor:
    """A place in a page that is being read: the elements and blocks before it, and the block at it."""

    blocks: list[TextBlock] = field(default_factory=list)
    elements: Elements = field(default_factory=lambda: Elements([-1], ["page"], [NO_SIGNS], [0], [0], [0]))
    path: list[int] = field(default_factory=lambda: [0])
    """Numbers of the elements that are open, the innermost last."""
    pieces: list[str] = field(default_factory=list)
    """The block's text so far."""
    linked: int = 0
    """Bytes of that text in links."""
    link: str = ""
    """Attributes of the link that is open."""
    first_link: str = ""
    """Attributes of the link that the block's text begins in."""
    last_link: str = ""
    """Attributes of the link that it ends in."""
    preformatted: int = 0
    """Open elements in which a line end is one."""
    in_custom: bool = False
    """True if the block began in a custom element."""
    after_custom: int = -1
    """Pieces of the block when a custom element ended."""

    def open(self, name: str, signs: Signs) -> None:
        """Enter a new element."""
        self.preformatted += name in _PREFORMATTED
        elements = self.elements
        elements.parents.append(self.path[-1])
        elements.names.append(name)
        elements.signs.append(signs)
        elements.firsts.append(len(self.blocks))
        elements.afters.append(0)
        elements.ends.append(0)
        self.path.append(len(elements.parents) - 1)

    def close(self, name: str) -> None:
        """Leave the innermost element."""
        self.preformatted -= name in _PREFORMATTED
        if len(self.path) > 1:  # <xmp> and <plaintext> hold text that looks like tags
            self._end(self.path.pop())

    def finish(self) -> None:
        """End the page."""
        self.flush()
        while self.path:
            self._end(self.path.pop())

    def _end(self, element: int) -> None:
        self.elements.afters[element] = len(self.blocks)
        self.elements.ends[element] = len(self.elements.parents)

    def add(self, text: str) -> None:
        """Append text to the block."""
        if self.link:
            self.linked += _bytes(text.strip())
            if not self.pieces:
                self.first_link = self.link
            self.last_link = self.link
        elif self.last_link and not text.isspace():
            self.last_link = ""
        self.pieces.append(text.replace("\n", _BREAK) if self.preformatted else text)

    def pass_custom(self, closes: bool, text: str) -> None:
        """Go over a custom element's tag, before `text`: it is part of a block, as <span> is, but where it
        stands beside another one, or would be glued to a sentence."""
        beside = not closes and self.in_custom and self.after_custom == len(self.pieces)
        glued = self.pieces and text[:1].strip() and _SENTENCE.search(self.pieces[-1])
        if beside or glued:
            self.flush()

        if not self.pieces:
            self.in_custom = not closes
        elif closes and not text.strip():
            self.after_custom = len(self.pieces) + bool(text)

    def pass_box(self) -> None:
        """Go over a picture or control."""
        if self.pieces and self.after_custom != len(self.pieces):
            self.pieces.append(_BOX)

    def join(self, by: str) -> None:
        """Separate the block's text, if it has any, from the text that follows."""
        if self.pieces:
            self.pieces.append(by)

    def flush(self) -> None:
        """End the block, if it has begun."""
        if not self.pieces:
            return

        text = self.pieces[0] if len(self.pieces) == 1 else _GLUE.join(self.pieces)
        if "&" in text:
            text = unescape(text)
        if _BOX in text:
            text = _BOXED.sub(" ", text).replace(_BOX, "")
        if _GLUE in text:
            text = _GLUED.sub(" ", text).replace(_GLUE, "")
        if _BREAK in text:
            text = "\n".join(filter(None, (" ".join(line.split()) for line in text.split(_BREAK))))
        else:
            text = " ".join(text.split())

        if text:
            self.blocks.append(
                TextBlock(self.path[-1], text, _bytes(text), self.linked, self.first_link, self.last_link)
            )
        self.pieces, self.linked, self.first_link, self.last_link = [], 0, "", ""
        self.in_custom, self.after_custom = False, -1


class BlockReader:
    """Reads pages; it remembers the signs of attributes, of which the pages of a site share many."""

    def __init__(self) -> None:
        self._signs: dict[str, Signs] = {}

    def read(self, tree: Any) -> tuple[list[TextBlock], Elements]:
        """The blocks of a Resiliparse tree, in their order, and its elements; the tree loses scripts, buttons
        and the like."""
        cursor = Cursor()
        if tree.body is None:
            return cursor.blocks, cursor.elements

        html = _COMMENT.sub("", shown_body(tree).html)
        for mark in (_BREAK, _GLUE, _BOX):  # characters that no page needs
            html = html.replace(mark, " ")
        for closes, name, attributes, text in _TAG.findall(html):
            if name in _ELEMENTS or (name == "button" and self._is_block(cursor, closes)):
                if name in _CELLS:  # cells of a row stand beside each other
                    cursor.join(" ")
                elif cursor.pieces:
                    cursor.flush()
                if closes:
                    cursor.close(name)
                else:
                    cursor.open(name, TAGS.get(name) or self._signs_of(name, attributes))
            elif name == "a":
                cursor.link = attributes if not closes and ' href="' in attributes else ""
            elif name == "br":
                cursor.join(_BREAK)
            elif name == "hr":
                cursor.flush()
            elif name == "img" or (name == "input" and ' type="hidden"' not in attributes):
                cursor.pass_box()
            elif "-" in name:
                cursor.pass_custom(closes != "", text)

            if text and (cursor.pieces or not text.isspace()):  # blanks begin no block
                cursor.add(text)

        cursor.finish()
        if any(signs.identity for signs in cursor.elements.signs):
            cursor.elements.controlled.update(" ".join(_CONTROLS.findall(html)).split())
        _mend_links(cursor.blocks)
        return cursor.blocks, cursor.elements

    @staticmethod
    def _is_block(cursor: Cursor, closes: str) -> bool:
        """True if a button is no part of a heading, which it is the text of."""
        name = cursor.elements.names[cursor.path[-1]]
        return name == "button" if closes else name not in NAMING

    def _signs_of(self, name: str, attributes: str) -> Signs:
        if name == "aside":  # the only one whose attributes are read with its name
            return signs_of(name, attributes)
        signs = self._signs.get(attributes)
        if signs is None:
            if len(self._signs) >= _SIGNS:
                self._signs.clear()
            signs = self._signs[attributes] = signs_of(name, attributes)
        return signs


def _mend_links(blocks: list[TextBlock]) -> None:
    """Count no text as linked that is so only because a link is never closed: the parser opens it again in
    each block that follows, and so it runs through sentences."""
    run: list[TextBlock] = []
    for block in blocks:
        if run and not (block.first_link and block.first_link == run[-1].last_link):
            _mend_run(run)
            run = []
        if block.last_link:
            run.append(block)
        elif run:
            _mend_run([*run, block])
            run = []
    _mend_run(run)


def _mend_run(run: list[TextBlock]) -> None:
    """Mend the link that goes through some blocks, or the lines of one."""
    if run and _goes_through(run[0]):
        for block in run:
            block.linked = 0
    if len(run) < 2:
        return
    sentences = sum(
        block.linked >= _SENTENCE_LINK and _SENTENCE.search(block.text) is not None for block in run[1:]
    )
    begins_inside = run[0].first_link != run[0].last_link
    if sentences >= 2 or (sentences and begins_inside):
        for block in run:
            block.linked = 0


def _goes_through(block: TextBlock) -> bool:
    """True if a block begins and ends in a link, and two of its lines are sentences of some length."""
    if not block.first_link or block.first_link != block.last_link:
        return False
    lines = block.text.split("\n")[1:]
    return sum(_bytes(line) >= _SENTENCE_LINK and _SENTENCE.search(line) is not None for line in lines) >= 2


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
