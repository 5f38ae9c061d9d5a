"""`same_answer`: candidates of a list that say the same, and the number of pages that do. No model.

Two texts say the same if they are equal once letter case, punctuation and white space are folded; if one is
inside the other, and most of it; or if their sets of pairs of words are near (Jaccard similarity;
Broder 1997) and all names and numbers of one are in the other. A text is compared with the best ranked of
each group alone, so no chain of near texts joins two that are far apart. The score of a candidate is log of
its group's pages, for a blend to weigh.

Every near text is found, without comparing all: of a text's pairs of words only the rarest of the list are
looked up, as many as a near text must share one with (prefix filtering; Chaudhuri et al., ICDE 2006). A
text of one word has no pair that a longer one could share: it is found by the word that is most of that text.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log
from typing import ClassVar, Self

from answermill.ranking.reranker import Resources, order_by
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList

SIMILARITY = 0.6
"""Least Jaccard similarity of texts that say the same."""
INSIDE = 0.6
"""Least share of a text, in characters, that a text inside it has: a name alone is in many answers."""
_ROUNDING = 1e-9


class _Blanks(dict[int, str]):
    """Table for `str.translate`: punctuation, white space and unseen characters become blanks. Letters of
    scripts without case, such as Chinese, get blanks around them: each is a word."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        self[code] = " " if category[0] in "PZC" else f" {character} " if category == "Lo" else character
        return self[code]


_BLANKS = _Blanks()


def folded(text: str) -> str:
    """The text without letter case and punctuation, one blank between words; a text of punctuation alone
    stays.

    >>> folded("It is “Paris”,  of course.")
    'it is paris of course'
    """
    plain = text.casefold()
    return " ".join(plain.translate(_BLANKS).split()) or plain


@dataclass(frozen=True, slots=True)
class ComparedText:
    """A text as it is compared."""

    folded: str
    pairs: frozenset[str]
    """Pairs of words that follow each other; the word itself if there is only one."""
    names: frozenset[str]
    """Words with a digit, and words but the first with a capital letter, folded."""

    @classmethod
    def of(cls, text: str) -> ComparedText:
        plain = folded(text)
        words = plain.split()
        pairs = frozenset(map(" ".join, pairwise(words))) or frozenset(words)
        written = text.translate(_BLANKS).split()
        names = {word for n, word in enumerate(written) if _is_name(word, n == 0)}
        return cls(plain, pairs, frozenset(word.casefold() for word in names))

    @property
    def least_shared(self) -> int:
        """Number of its pairs, however chosen, of which a near text has at least one."""
        return floor((1 - SIMILARITY) * len(self.pairs) + _ROUNDING) + 1

    @property
    def core(self) -> str:
        """The word that is most of the text, so that alone it says the same; '' if none is.

        >>> [ComparedText.of(text).core for text in ("The Mississippi.", "The river.")]
        ['mississippi', '']
        """
        longest = max(self.folded.split(), key=len, default="")
        return longest if len(longest) >= INSIDE * len(self.folded) else ""

    def says_the_same(self, other: ComparedText) -> bool:
        """True for two different folded texts that say the same."""
        short, long = sorted((self.folded, other.folded), key=len)
        is_inside = len(short) >= INSIDE * len(long) and f" {short} " in f" {long} "
        return is_inside or self.is_near(other)

    def is_near(self, other: ComparedText) -> bool:
        """True if the pairs are near and all names and numbers of one text are in the other."""
        both = len(self.pairs & other.pairs)
        is_near = both >= SIMILARITY * (len(self.pairs) + len(other.pairs) - both) - _ROUNDING
        return is_near and (self.names <= other.names or other.names <= self.names)


def _is_name(word: str, is_first: bool) -> bool:
    return any(map(str.isdigit, word)) or (not is_first and word != word.lower())


def groups(texts: Sequence[str]) -> list[int]:
    """[texts]: number of the first text, best ranked, that each says the same as; its own if there is none.

    A text joins the first group whose own first text says the same; texts after it change nothing.

    >>> groups(["It is Paris.", "It was in London, in spring.", "it is paris", "It was in London"])
    [0, 1, 0, 1]
    """
    places: dict[str, list[int]] = {}  # folded text → its places
    for n, text in enumerate(texts):
        places.setdefault(folded(text), []).append(n)

    starts = [numbers[0] for numbers in places.values()]
    result = [0] * len(texts)
    for numbers, first in zip(
        places.values(), _first([ComparedText.of(texts[n]) for n in starts]), strict=True
    ):
        for n in numbers:
            result[n] = starts[first]
    return result


def _first(texts: Sequence[ComparedText]) -> list[int]:
    """`groups` of texts, no two of which are equal."""
    common = Counter[str]()
    for text in texts:
        common.update(text.pairs)

    index = defaultdict[str, list[int]](list)  # pair → first texts of groups that have it
    rarest = defaultdict[str, list[int]](list)  # pair → first texts of groups whose rarest it is
    cores = defaultdict[str, list[int]](list)  # word → first texts of groups that it is most of
    result = []
    for n, text in enumerate(texts):
        shared = sorted((pair for pair in text.pairs if common[pair] > 1), key=lambda p: (common[p], p))

        # A first text that is near, or that this one is inside, has one of the `least` rarest pairs; among
        # these are all that no other text has. One that is inside this has its rarest here.
        least = text.least_shared
        alone = len(text.pairs) - len(shared)
        near = {first for pair in shared[: max(0, least - alone)] for first in index.get(pair, ())}
        near |= {first for pair in shared for first in rarest.get(pair, ())}
        core = text.core
        near.update(cores.get(core, ()))

        first = next((first for first in sorted(near) if text.says_the_same(texts[first])), n)
        if first == n:
            for pair in shared:
                index[pair].append(n)
            if core:
                cores[core].append(n)
            if shared and not alone:
                rarest[shared[0]].append(n)
        result.append(first)
    return result


def page_of(candidate: Candidate) -> str:
    """The address of its page, which a crawl may have in several versions; without one its document."""
    return candidate.hit.passage.url or candidate.hit.passage.doc_id


class SameAnswer:
    """Reranker by log of the number of the list's pages that say the same. Reads sentences, writes
    sentences."""

    name: ClassVar[str] = "same_answer"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(ranked, page_scores(ranked), self.name) for ranked in lists]


def page_scores(ranked: RankedList) -> list[float]:
    """[candidates]: log of the number of pages with a candidate of the same group."""
    first = groups([candidate.text for candidate in ranked.candidates])
    pages = defaultdict[int, set[str]](set)
    for n, candidate in zip(first, ranked.candidates, strict=True):
        pages[n].add(page_of(candidate))
    return [log(len(pages[n])) for n in first]
