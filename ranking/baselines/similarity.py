"""Cosine of the dense encoder's vectors of question and sentence: a reranker that needs no training.

Reads sentences, writes sentences. The encoder is the one that the dense index was built with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from ranking.reranker import Resources, SentenceEncoder, order_by
from schemas.ranked import RankedList, Unit


class Similarity:
    """Score = cos(question, sentence), in [-1, 1]."""

    name: ClassVar[str] = "similarity"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(resources.encoder())

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        number: dict[str, int] = {}  # each different sentence is encoded once
        for ranked in lists:
            for candidate in ranked.candidates:
                number.setdefault(candidate.text, len(number))
        if not number:
            return list(lists)
        questions = _unit(self._encoder.encode_questions([ranked.question.text for ranked in lists]))  # [lists, d]
        sentences = _unit(self._encoder.encode_sentences(list(number)))  # [different sentences, d]
        reranked = []
        for question, ranked in zip(questions, lists, strict=True):
            rows = sentences[[number[c.text] for c in ranked.candidates]]  # [candidates, d]
            scores = (rows.astype(np.float64) * question.astype(np.float64)).sum(axis=1)  # row by row: no batch in the sum
            reranked.append(order_by(ranked, scores, self.name))
        return reranked


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Each row at length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
