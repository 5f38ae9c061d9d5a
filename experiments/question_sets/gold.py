"""The rule for answers, and the draw of questions, of every study."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from answermill.indexing.passages.text import fold, holds, one_line


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a labelled set, with its gold."""

    question_id: str
    """'<set>:<id in the set>'"""
    text: str
    title: str
    """Title of the gold document."""
    gold: tuple[tuple[str, str], ...]
    """(doc id in the corpus, answer sentence)"""
    strings: tuple[str, ...] = ()
    """Short answers, for the lenient rule; () if the set has none."""
    without_answer: tuple[str, ...] = ()
    """Documents about a question that has no answer in them."""

    @property
    def source(self) -> str:
        return self.question_id.partition(":")[0]

    @property
    def documents(self) -> frozenset[str]:
        return frozenset([*(doc_id for doc_id, _ in self.gold), *self.without_answer])

    def strict(self, doc_id: str, text: str) -> bool:
        """True if a sentence of a document is one of the labelled answer sentences."""
        return is_answer(
            canonical(text), [canonical(sentence) for doc, sentence in self.gold if doc == doc_id]
        )

    def lenient(self, doc_id: str, text: str) -> bool:
        """True if it is one, or is of a gold document and holds a short answer, as whole words. The same as
        `strict` where the set has no short answers."""
        if doc_id not in self.documents:
            return False
        return self.strict(doc_id, text) or any(
            holds(canonical(text), canonical(string)) for string in self.strings
        )


def canonical(text: str) -> str:
    """Form of the text to compare texts by: normalised as a corpus is, in one line, letter case folded."""
    return fold(one_line(text))


def is_answer(text: str, gold: Iterable[str]) -> bool:
    """True if a sentence of the right document is an answer: it holds one, or is at least half of one
    (sentence splitters differ). Texts are folded."""
    return any(right in text or (text in right and 2 * len(text) >= len(right)) for right in gold)


def drawn(names: Iterable[str], number: int) -> list[str]:
    """`number` of the names, or all if there are fewer: those with the least SHA-256, so that the draw
    depends on no order, and one name more or less in the set changes one at most. Sorted by name."""
    return sorted(by_hash(names)[:number])


def by_hash(names: Iterable[str]) -> list[str]:
    """The names by their SHA-256: an order in which each beginning is a random draw."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
