"""Word overlap, ties by the original rank: the rule baseline WO+RR (Cosinet §2.1). No training, no model.

Reads sentences, writes sentences. Despite its simplicity it is hard to beat where questions were written beside the
text: 56.38 P@1 on WikiQA, 73.12 on SQuAD-sent (Cosinet Table 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import spacy

from ranking.reranker import Resources, order_by
from schemas.ranked import RankedList, Unit


class Overlap:
    """Score = how many different words of the question stand in the candidate, lower-cased; punctuation is no word."""

    name: ClassVar[str] = "overlap"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(self) -> None:
        self._tokenizer = spacy.blank("en").tokenizer

    @classmethod
    def load(cls, resources: Resources) -> Self:
        if resources.checkpoint is not None:
            raise ValueError(f"overlap takes no checkpoint, but {resources.checkpoint!r} is given")
        return cls()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [self._rerank(ranked) for ranked in lists]

    def _rerank(self, ranked: RankedList) -> RankedList:
        question = self._words(ranked.question.text)
        original = sorted(ranked.candidates, key=lambda c: c.position)
        scores = [len(question & self._words(c.text)) for c in original]
        return order_by(RankedList(ranked.question, tuple(original)), scores, self.name)

    def _words(self, text: str) -> set[str]:
        return {token.lower_ for token in self._tokenizer(text) if any(map(str.isalnum, token.text))}
