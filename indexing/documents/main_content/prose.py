"""The blocks of a page that are its main text, by where its prose stands.

1. Prose is in blocks of some length with few links. A block among others of its element's kind (the
   paragraphs of an article) counts in full, one that stands alone (a teaser) for little, a list item for
   half.
2. Elements that look like something else (hints.py) are left out, unless that would cost the page most of its
   prose.
3. The main text is in the innermost element that holds nearly all of the prose that is left. So it has the
   headings, lists and tables between its paragraphs, and none of the short blocks around it, except for a
   lead, the prose from the page's heading on, and for what goes on beside it: sentences without links before
   it, and sections with headings after it.
4. In it, blocks that are nothing but links are left out, except for one or two between paragraphs.

Boilerpipe (Kohlschütter et al., WSDM 2010) decides for each block by its length, its links and its
neighbours; Readability scores elements by their paragraphs. This does the first to weigh blocks and the
second to choose. The rules were chosen on a half of each set of `experiments.extraction`, which measures them
on the other, and on 60 pages in other languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from answermill.indexing.documents.main_content.belief import HEADINGS, TWO_SENTENCES, Believer
from answermill.indexing.documents.main_content.blocks import Elements, TextBlock
from answermill.indexing.documents.main_content.hints import Hint

_PROSE = 80  # bytes beside links, from which a block is prose
_LONG_HEADING = 200  # bytes from which a heading is a paragraph that looks like one
_ALONE = 0.2  # weight of prose beside which no other prose stands
_ITEM = 0.5  # weight of prose in a list, which may be one of references or teasers
_COVER = 0.9  # share of the prose that the element of the main text has
# Most blocks between the page's heading and the main text among which a lead is looked for.
_LEAD = 20
_HEADINGS = 2  # most headings one after the other that begin a section
_LINKS = 0.7  # share of a block's bytes in links from which it is nothing but links
_RUN = 3  # as many blocks of links one after the other are a list of links

_ITEMS = frozenset({"li", "dd", "td"})
_TEXTS = frozenset({"article", "main"})
_PARTS = {
    "li",
    "dd",
    "table",
    "tbody",
    "thead",
    "tfoot",
    "tr",
    "ul",
    "ol",
    "dl",
    "dt",
    "p",
    "pre",
    "blockquote",
    "center",
}
"""Elements that are never the main one: the text around a list or table belongs to it. A cell may hold a
page's layout."""


def main_text(blocks: Sequence[TextBlock], elements: Elements, comments: bool) -> str:
    """The main text, a line for each block or <br>; `comments` keeps readers' comments, wherever they stand
    on the page."""
    hints, wanted = _wanted(blocks, elements, comments)
    article = [block for block in wanted if hints[block.element] == Hint.NONE]
    inside = _main_element(article if _has_prose(article, elements) else wanted, elements)
    lead = _lead(article, inside, elements) | _beside(article, inside, elements)
    chosen = [
        block
        for block in wanted
        if inside[block.element] or hints[block.element] == Hint.COMMENT or id(block) in lead
    ]
    return "\n".join(block.text for block in _without_links(chosen, elements))


def _wanted(
    blocks: Sequence[TextBlock], elements: Elements, comments: bool
) -> tuple[list[Hint], list[TextBlock]]:
    """(the hint that is followed for each element, the blocks that these hints leave).

    Hints that would leave nothing, or no prose where the page has some, are not followed; those of comments
    always are.
    """
    prose = [_prose(block, elements) for block in blocks]
    believer = Believer(blocks, prose, elements, _shares(blocks, elements))
    blocks = [block for n, block in enumerate(blocks) if not believer.is_button(n)]
    readings = []
    for ignored in ((), (Hint.WIDGET, Hint.SURROUNDING), (Hint.WIDGET, Hint.SURROUNDING, Hint.HIDDEN)):
        hints = believer.followed(ignored)
        wanted = [
            b
            for b in blocks
            if hints[b.element] == Hint.NONE or (comments and hints[b.element] == Hint.COMMENT)
        ]
        if _has_prose(wanted, elements):
            return hints, wanted
        readings.append((hints, wanted))

    return next((reading for reading in readings if reading[1]), readings[0])


def _has_prose(blocks: Sequence[TextBlock], elements: Elements) -> bool:
    return any(_prose(block, elements) for block in blocks)


def _prose(block: TextBlock, elements: Elements) -> int:
    """Bytes of a block's prose; 0 if it has none."""
    own = block.size - block.linked
    least = _LONG_HEADING if elements.names[block.element] in HEADINGS else _PROSE
    return own if own >= least and 2 * block.linked < block.size else 0


def _shares(blocks: Sequence[TextBlock], elements: Elements) -> list[float]:
    """Weight of the prose in each element."""
    parents, names = elements.parents, elements.names
    weights = [0.0] * len(parents)
    texts = [block for block in blocks if names[block.element] not in HEADINGS]
    prose = [_prose(block, elements) for block in texts]

    for n, block in enumerate(texts):
        if not prose[n]:
            continue
        beside = [texts[m].element for m in (n - 1, n + 1) if 0 <= m < len(texts) and prose[m]]
        among_others = any(
            other == block.element or parents[other] == parents[block.element] for other in beside
        )
        weight = prose[n] * (1.0 if among_others else _ALONE)
        weights[block.element] += weight * (_ITEM if names[block.element] in _ITEMS else 1.0)

    for n in range(len(parents) - 1, 0, -1):
        weights[parents[n]] += weights[n]
    return weights


def _main_element(blocks: Sequence[TextBlock], elements: Elements) -> list[bool]:
    """True for each element that is the main one or inside it; for all if there is no prose."""
    parents, names = elements.parents, elements.names
    shares = _shares(blocks, elements)
    main = 0

    if shares[0]:
        largest = [0] * len(parents)  # child with most prose; 0 if none has any
        for n in range(1, len(parents)):
            if shares[n] > (shares[largest[parents[n]]] if largest[parents[n]] else 0):
                largest[parents[n]] = n
        while largest[main] and shares[largest[main]] >= _COVER * shares[0]:
            main = largest[main]
        while names[main] in _PARTS:
            main = parents[main]

    inside = [False] * len(parents)
    inside[main] = True
    for n in range(main + 1, len(parents)):
        inside[n] = inside[parents[n]]
    return inside


def _lead(blocks: Sequence[TextBlock], inside: Sequence[bool], elements: Elements) -> set[int]:
    """`id` of the blocks of prose between the last <h1> before the main text and its first block."""
    first = next((n for n, block in enumerate(blocks) if inside[block.element]), 0)
    for n in range(first - 1, max(first - 1 - _LEAD, -1), -1):
        if elements.names[blocks[n].element] == "h1":
            return {id(block) for block in blocks[n:first] if _prose(block, elements)}
    return set()


def _beside(blocks: Sequence[TextBlock], inside: Sequence[bool], elements: Elements) -> set[int]:
    """`id` of the blocks next to the main text that go on with it, before it or in sections after it, in the
    same <article> or <main>, or else in the element that holds it."""
    places = [n for n, block in enumerate(blocks) if inside[block.element]]
    main = inside.index(True)
    if not places or not main:
        return set()

    holder = main
    while holder and elements.names[holder] not in _TEXTS:
        holder = elements.parents[holder]
    holder = holder or elements.parents[main]
    beside = _going_on(reversed(blocks[: places[0]]), holder, elements)
    after = blocks[places[-1] + 1 :]
    if after and elements.names[after[0].element] in HEADINGS:
        beside |= _going_on(after, holder, elements)
    return beside


def _going_on(blocks: Iterable[TextBlock], holder: int, elements: Elements) -> set[int]:
    """`id` of the blocks, from the main text away, up to the first that is neither a heading nor sentences
    without links."""
    chosen: set[int] = set()
    headings: list[TextBlock] = []
    for block in blocks:
        if not holder <= block.element < elements.ends[holder] or block.linked:
            break
        if elements.names[block.element] in HEADINGS and len(headings) < _HEADINGS:
            headings.append(block)
            continue

        is_text = _prose(block, elements) and TWO_SENTENCES.search(block.text) is not None
        if not is_text or elements.names[block.element] == "li":
            break
        chosen.update(map(id, (block, *headings)))
        headings = []

    return chosen


def _without_links(blocks: Sequence[TextBlock], elements: Elements) -> list[TextBlock]:
    """Blocks without those that are nothing but links; fewer than _RUN of them between prose stay."""
    links = [block.linked > _LINKS * block.size and block.size - block.linked < _PROSE for block in blocks]
    prose = [n for n, block in enumerate(blocks) if _prose(block, elements)]
    first, last = (prose[0], prose[-1]) if prose else (0, 0)
    kept: list[TextBlock] = []
    for is_links, run in groupby(range(len(blocks)), key=links.__getitem__):
        numbers = list(run)
        if not is_links or (len(numbers) < _RUN and first < numbers[0] < last):
            kept.extend(blocks[n] for n in numbers)
    return kept
