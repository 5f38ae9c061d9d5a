"""Hints that are followed, of those that hints.py finds in a page's elements.

1. A hint that would cost the page most of its prose is not: the share counts of all elements that have the
   word, so that an article in parts stays whole.
2. An id that repeats the heading of its element names a section, and is no hint. An element between prose is
   not what a word such as `menu` or `cookies` says, which are topics too.
3. A hidden element that a heading, a question or a button opens is a panel, and a reader opens it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence

from answermill.indexing.documents.main_content.blocks import Elements, TextBlock
from answermill.indexing.documents.main_content.hints import ASIDE, HIDDEN, NOTE, Hint, Word
from answermill.schemas.scripts import TERMINAL_SET

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_OPENERS = HEADINGS - {"h1"} | {"dt", "summary", "legend", "button"}
"""Elements whose texts name what comes after them; a page's own heading names all of it."""
_TITLES = _OPENERS | HEADINGS
_QUESTION_MARKS = ("?", "？", "؟", "՞", "፧", ";")
_WHOLE = frozenset({"page", "body", "main", "article"})
"""Elements whose content is main text, whatever their classes say: those are often of the page's layout."""
_ANCHORS = HEADINGS | {"p"}
"""Elements whose ids are there to be linked to."""
_GUARD = {Hint.WIDGET: 0.1, Hint.SURROUNDING: 0.7, Hint.HIDDEN: 0.9, Hint.COMMENT: 0.95}
"""The share of the page's prose from which a hint is not followed."""
_ALIKE = {Hint.WIDGET: 0.1, Hint.SURROUNDING: 0.6, Hint.HIDDEN: 0.9}
"""The same for all elements that have the same word, if they are parts of one text."""
_PART = 0.1  # share of the prose that all parts but the largest have at the least
_FEW_LINKS = 0.1  # share of an aside's bytes in links up to which it is a part of the text

_END, _WIDE_END = ".!?…", TERMINAL_SET  # with a blank after it, and without
TWO_SENTENCES = re.compile(
    rf"(?<!\W)[^\w{_END}]*+(?:[{_END}][^\w\s]*+\s\W*+\w)|(?<!\W)[^\w{_WIDE_END}]*+[{_WIDE_END}]\W*+\w"
)
"""A mark between two words that may end a sentence. Signs beside each other are read from the first alone: a
line may be one of thousands of dots."""


class Believer:
    """The hints of a page's elements that may be followed."""

    def __init__(
        self,
        blocks: Sequence[TextBlock],
        prose: Sequence[int],
        elements: Elements,
        shares: Sequence[float],
    ) -> None:
        """`prose` is the bytes of each block's prose, `shares` the weight of the prose in each element."""
        self._blocks, self._prose, self._elements, self._shares = blocks, prose, elements, shares
        self._panels: dict[tuple[int, int, str], int] = {}  # (end, parent, name) -> first block
        marked = [n for n, signs in enumerate(elements.signs) if signs.words or signs.hidden]
        self._parts = self._in_parts(marked)
        self._own = {n: hint for n in marked if (hint := self._hint(n))}

    def followed(self, ignored: Container[Hint]) -> list[Hint]:
        """The hint that is followed for each element: its own, unless that is ignored, or, if higher, that of
        an element that holds it."""
        followed: list[Hint] = []
        for n, parent in enumerate(self._elements.parents):
            above = followed[parent] if parent >= 0 else Hint.NONE
            own = self._own.get(n, Hint.NONE)
            followed.append(max(above, own) if own and own not in ignored else above)
        return followed

    def is_button(self, n: int) -> bool:
        """True if a block is the text of a button that opens no panel."""
        block = self._blocks[n]
        if self._elements.names[block.element] != "button" or block.text.endswith(_QUESTION_MARKS):
            return False
        return n + 1 not in self._panels.values()

    def _in_parts(self, marked: Sequence[int]) -> set[str]:
        """The keys of elements that hold most of the prose together, in several parts."""
        weights: dict[str, list[float]] = defaultdict(list)
        hints: dict[str, Hint] = {}
        ends: dict[str, int] = {}
        for n in marked:
            for key, hint in self._elements.signs[n].keys if self._shares[n] else ():
                # Inside an element that counts, it counts already.
                if n >= ends.get(key, 0) and self._is_light(n, hint):
                    weights[key].append(self._shares[n])
                    ends[key], hints[key] = self._elements.ends[n], hint

        return {
            key
            for key, parts in weights.items()
            if sum(parts) > _ALIKE[hints[key]] * self._shares[0]
            and sum(parts) - max(parts) > _PART * self._shares[0]
        }

    def _hint(self, n: int) -> Hint:
        """The hint of one element."""
        signs, name = self._elements.signs[n], self._elements.names[n]
        if name in _WHOLE:
            return Hint.NONE
        hidden = signs.hidden and HIDDEN not in self._parts and self._is_light(n, Hint.HIDDEN)
        if hidden and not self._is_panel(n):
            return Hint.HIDDEN

        highest = Hint.NONE
        for word in signs.words:
            believed = (
                word.text not in self._parts and self._is_light(n, word.hint) and not self._goes_on(n, word)
            )
            if word.hint > highest and believed and not self._is_topic(n, word):
                highest = word.hint
        return highest

    def _goes_on(self, n: int, word: Word) -> bool:
        """True if an element beside it, with the same attributes, has so much of the prose that the word is
        wrong there."""
        elements = self._elements
        if word.hint == Hint.COMMENT or not self._shares[n]:
            return False
        return any(
            0 < other < len(elements.names)
            and elements.parents[other] == elements.parents[n]
            and elements.names[other] == elements.names[n]
            and elements.signs[other] == elements.signs[n]
            and not self._is_light(other, word.hint)
            for other in (elements.ends[n], self._before(n))
        )

    def _is_light(self, n: int, hint: Hint) -> bool:
        """True if the element holds too little of the prose for the hint to be wrong."""
        return self._shares[n] <= _GUARD[hint] * self._shares[0]

    def _is_topic(self, n: int, word: Word) -> bool:
        """True if the word names what the element's prose is about."""
        if word.of_id and self._elements.names[n] in _ANCHORS:
            return True
        if (word.of_id or word.slug) and self._is_heading(n, word):
            return True
        if word in (ASIDE, NOTE):
            return self._is_part(n, word)
        return word.is_topic and self._is_between_prose(n, self._elements.parents[n])

    def _is_heading(self, n: int, word: Word) -> bool:
        """True if the word is in the element's heading, or all words of its class are. Readers' comments have
        such a heading as well, so that a section about comments is believed to be one only among others that
        look like it, or between prose; and so have lists of links that classes name, which are no prose."""
        if not any(_names(heading, word.slug or word.text) for heading in self._headings(n)):
            return False
        if word.slug:
            return self._has_few_links(n) and self._is_between_prose(n, self._elements.parents[n])
        if word.hint != Hint.COMMENT:
            return True
        return self._is_in_series(n) or self._is_between_prose(n, self._elements.parents[n])

    def _is_in_series(self, n: int) -> bool:
        """True if an element of the same kind, with prose and a heading of the same level, stands beside
        it."""
        elements = self._elements
        level, parent = self._level(n), elements.parents[n]
        return level != "" and any(
            elements.parents[other] == parent
            and elements.names[other] == elements.names[n]
            and self._shares[other] > 0
            and self._level(other) == level
            for other in (elements.ends[n], self._before(n))
            if 0 < other < len(elements.names)
        )

    def _before(self, n: int) -> int:
        """The element before it of the same parent; 0 if there is none."""
        elements = self._elements
        other = n - 1
        while other > 0 and elements.parents[other] != elements.parents[n]:
            other = elements.parents[other]
        return other if elements.parents[n] < other else 0

    def _level(self, n: int) -> str:
        """Tag of the heading that an element begins with; '' if it begins with none."""
        first = self._elements.firsts[n]
        if first >= self._elements.afters[n]:
            return ""
        name = self._elements.names[self._blocks[first].element]
        return name if name in HEADINGS else ""

    def _is_part(self, n: int, word: Word) -> bool:
        """True if an aside is a part of the text that it stands in: a note, or some sentences between others.
        A single one is often a quote from that text."""
        elements = self._elements
        blocks = self._blocks[elements.firsts[n] : elements.afters[n]]
        few_links = self._has_few_links(n)
        if word == NOTE or not few_links or not self._shares[n]:
            return few_links and self._shares[n] > 0

        holder = elements.parents[n]
        while holder and elements.names[holder] not in ("article", "main"):
            holder = elements.parents[holder]
        between = self._is_between_prose(n, holder or elements.parents[n])
        return between and any(TWO_SENTENCES.search(block.text) for block in blocks)

    def _has_few_links(self, n: int) -> bool:
        blocks = self._blocks[self._elements.firsts[n] : self._elements.afters[n]]
        return sum(block.linked for block in blocks) <= _FEW_LINKS * sum(block.size for block in blocks)

    def _headings(self, n: int) -> Iterable[str]:
        """The heading of an element: its first block, or the one before it."""
        first, names = self._elements.firsts[n], self._elements.names
        if first < self._elements.afters[n] and names[self._blocks[first].element] in _TITLES:
            yield self._blocks[first].text
        if first:
            before = self._blocks[first - 1]
            beside = self._elements.parents[before.element] == self._elements.parents[n]
            if beside and names[before.element] in _TITLES:
                yield before.text

    def _is_between_prose(self, n: int, holder: int) -> bool:
        """True if the element has prose, and stands between prose of an element that holds it."""
        if not self._shares[n]:
            return False
        first, after = self._elements.firsts[n], self._elements.afters[n]
        before = range(first - 1, first - 3, -1)
        return self._has_prose(before, holder) and self._has_prose(range(after, after + 2), holder)

    def _has_prose(self, places: Iterable[int], holder: int) -> bool:
        """True if the first of these blocks that is no heading is prose inside an element."""
        for place in places:
            if not 0 <= place < len(self._blocks):
                return False
            element = self._blocks[place].element
            if not holder <= element < self._elements.ends[holder]:
                return False
            if self._elements.names[element] not in HEADINGS:
                return self._prose[place] > 0
        return False

    def _is_panel(self, n: int) -> bool:
        """True if a reader can open the hidden element."""
        elements = self._elements
        signs, first = elements.signs[n], elements.firsts[n]
        opened = signs.is_panel or signs.identity in elements.controlled or self._follows_panel(n)
        if not opened and first:
            before = self._blocks[first - 1]
            is_item = elements.names[n] != "p" or elements.names[elements.parents[n]] == "li"
            names = is_item and elements.names[before.element] in _OPENERS
            opened = names or before.text.endswith(_QUESTION_MARKS)
        if opened:
            self._panels[elements.ends[n], elements.parents[n], elements.names[n]] = first
        return opened

    def _follows_panel(self, n: int) -> bool:
        """True if the element goes on where a panel of its kind has ended."""
        elements = self._elements
        return (n, elements.parents[n], elements.names[n]) in self._panels


def _names(heading: str, text: str) -> bool:
    """True if a heading has all words of a hint, in any number."""
    words = heading.casefold().replace("-", " ").split()
    return all(
        any(word.strip(".,:;!?¶#()").removesuffix("s") == part.removesuffix("s") for word in words)
        for part in text.replace("_", "-").split("-")
    )
