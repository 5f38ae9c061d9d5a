"""What counts as an answer, in every benchmark; and how questions are drawn."""

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
    """Of the gold document."""
    gold: tuple[tuple[str, str], ...]
    """(doc id in the corpus, answer sentence)"""
    strings: tuple[str, ...] = ()
    """Short answers, for the lenient rule; () if the set has none."""

    @property
    def source(self) -> str:
        return self.question_id.partition(":")[0]

    @property
    def documents(self) -> frozenset[str]:
        return frozenset(doc_id for doc_id, _ in self.gold)

    def strict(self, doc_id: str, text: str) -> bool:
        """Whether a sentence of a document is one of the labelled answer sentences."""
        return is_answer(
            canonical(text), [canonical(sentence) for doc, sentence in self.gold if doc == doc_id]
        )

    def lenient(self, doc_id: str, text: str) -> bool:
        """Whether it is, or is of a gold document and holds a short answer, as whole words. Where the set has
        no short answers the same as `strict`."""
        if doc_id not in self.documents:
            return False
        return self.strict(doc_id, text) or any(
            holds(canonical(text), canonical(string)) for string in self.strings
        )


def canonical(text: str) -> str:
    """The text as two texts are compared: normalised as a corpus is, in one line, letter case folded."""
    return fold(one_line(text))


def is_answer(text: str, gold: Iterable[str]) -> bool:
    """Whether a sentence of the right document is an answer: it holds one, or is half of one at least
    (sentence splitters differ). Texts are folded."""
    return any(right in text or (text in right and 2 * len(text) >= len(right)) for right in gold)


def drawn(names: Iterable[str], number: int) -> list[str]:
    """`number` of the names, or all if there are fewer: those whose SHA-256 is least, so that the draw
    depends on no order, and a name more or less in the set changes one at the most. Sorted by name."""
    return sorted(sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:number])
