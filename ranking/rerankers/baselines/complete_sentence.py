"""Filter that keeps complete sentences: a page's headings, menu entries and captions are candidates too, and
often share more words with a question than its answer does. So does the question itself, where a page of
questions and answers asks it; it goes as well. No model; the order stays.

Reads sentences, writes sentences. Usually placed after a first, cheap stage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Self

from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.baselines.same_answer import folded
from answermill.schemas.ranked import CandidateKind, RankedList
from answermill.schemas.scripts import TERMINAL_SET, UNSPACED

LEAST_WORDS = 3
LONG = 12
"""Number of words that make a text prose, whatever it ends with: a quotation, an item of a list, a sentence
before a formula."""
_FOOTNOTES = r"(\[[^\[\]]{1,30}\]|:\d[\d–-]*|<ref\b[^>]*>)*"
"""[12], [citation needed]; or :74, the page number of Wikipedia's templates."""
_CLOSING = "\"'”’»“«)\\]}」』）】》〉〕］｣"
_END = re.compile(f"[.!?…{TERMINAL_SET}][{_CLOSING}]*{_FOOTNOTES}$")
_UNSPACED = re.compile(f"[{UNSPACED}]")


class CompleteSentence:
    """Reranker that gives 1 to a text that ends like a sentence and has at least three words, or has twelve,
    and drops all others, and those that say the question again."""

    name: ClassVar[str] = "complete_sentence"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [self._rerank(ranked) for ranked in lists]

    def _rerank(self, ranked: RankedList) -> RankedList:
        asked = folded(ranked.question.text)
        whole = tuple(c for c in ranked.candidates if is_complete(c.text) and not repeats(c.text, asked))
        return order_by(RankedList(ranked.question, whole), [1.0] * len(whole), self.name)


def is_complete(text: str) -> bool:
    """True if a text ends in a mark that ends sentences in its script and has at least three words, or has
    twelve.

    >>> is_complete("The sea is salty."), is_complete("海水は塩辛い。"), is_complete("समुद्र खारा है।")
    (True, True, True)
    """
    words = words_in(text)
    return words >= LONG or (words >= LEAST_WORDS and _END.search(text.rstrip()) is not None)


def words_in(text: str) -> int:
    """Words between blanks, of which no more than LONG are counted; in scripts that are written without
    blanks, two letters count as a word.

    >>> words_in("It is so."), words_in("海水是咸的呢。")
    (3, 3)
    """
    words = len(text.split(maxsplit=LONG))
    if words >= LONG or text.isascii():
        return words
    return max(words, len(_UNSPACED.findall(text)) // 2)


def repeats(text: str, asked: str) -> bool:
    """True if a text is the question but for letter case, punctuation and white space; `asked`: the question,
    folded.

    >>> repeats("“Why is the sea salty?”", "why is the sea salty")
    True
    """
    is_short = len(text) <= 2 * len(asked) + 10  # most candidates are longer, and need no folding
    return is_short and folded(text) == asked
