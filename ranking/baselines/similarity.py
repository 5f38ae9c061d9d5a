"""Cosine of the dense encoder's vectors of question and sentence: a reranker that needs no training.

Reads sentences, writes sentences. The encoder is the one that the dense index was built with. With a `context` a sentence is
encoded with its title, as a passage is where it is indexed, or between its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ranking.baselines import SimilarityStage
from ranking.context import Reading
from ranking.reranker import Resources, SentenceEncoder, order_by
from schemas.ranked import RankedList, Unit

SENTENCE = Reading()
"""The sentence alone."""


class Similarity:
    """Score = cos(question, sentence), in [-1, 1]; or of the sentence with what the context names."""

    name: ClassVar[str] = "similarity"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(self, encoder: SentenceEncoder, reading: Reading = SENTENCE) -> None:
        self._encoder = encoder
        self.readings = (reading,)
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(resources.encoder(), Reading(tuple(resources.stage(SimilarityStage).context)))

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        (reading,) = self.readings
        texts = [list(reading.texts(ranked)) for ranked in lists]
        self._costs.update(reading.missing(reading.tuples(lists)) if reading.around else {})
        number: dict[tuple[str, ...], int] = {}  # each different text is encoded once
        for of_list in texts:
            for text in of_list:
                number.setdefault(text, len(number))
        if not number:
            return list(lists)
        questions = _unit(self._encoder.encode_questions([ranked.question.text for ranked in lists]))  # [lists, d]
        sentences = _unit(self._encoded(list(number)))  # [different texts, d]
        reranked = []
        for question, ranked, of_list in zip(questions, lists, texts, strict=True):
            rows = sentences[[number[text] for text in of_list]]  # [candidates, d]
            scores = (rows.astype(np.float64) * question.astype(np.float64)).sum(axis=1)  # row by row: no batch in the sum
            reranked.append(order_by(ranked, scores, self.name))
        return reranked

    def _encoded(self, texts: Sequence[tuple[str, ...]]) -> npt.NDArray[np.float32]:
        """[texts, d] of each one's parts in the context's order."""
        if "title" not in self.readings[0].context:
            return self._encoder.encode_sentences([" ".join(filter(None, parts)) for parts in texts])
        return self._encoder.encode_passages([(title, " ".join(filter(None, parts))) for title, *parts in texts])

    def costs(self) -> Counter[str]:
        """Candidates without a part that the context names, since the last call."""
        spent, self._costs = self._costs, Counter()
        return spent


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Each row at length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
