"""`support_vectors`: how near a candidate's vector is to those of the other good candidates.

Reads sentences, writes sentences. The score is the mean of the cosines with the best others
(`best_others.py`), by the encoder that built the dense index. A cosine says that two sentences are about the
same; it does not tell whether one denies the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, SentenceEncoder, order_by
from answermill.ranking.rerankers.baselines.sentence_vectors import encode, numbered
from answermill.ranking.rerankers.support import VectorEvidenceStage
from answermill.ranking.rerankers.support.best_others import Choice
from answermill.schemas.arrays import Floats, Ints, Vectors
from answermill.schemas.ranked import CandidateKind, RankedList


class SupportVectors:
    """Reranker by the weighted mean of cosines, in [-1, 1]; 0 of a single candidate."""

    name: ClassVar[str] = "support_vectors"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, encoder: SentenceEncoder, choice: Choice, reading: Reading) -> None:
        self._encoder, self._choice = encoder, choice
        self.readings = (reading,)
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(VectorEvidenceStage)
        return cls(resources.encoder(), Choice.load(resources), stage.reading)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        (reading,) = self.readings
        texts = [list(reading.texts(ranked)) for ranked in lists]
        self._costs.update(reading.missing(reading.tuples(lists)) if reading.around else {})

        number = numbered(texts)  # each different text is encoded once
        if not number:
            return list(lists)

        vectors = encode(self._encoder, reading, list(number))  # [different texts, d]
        reranked = []
        for ranked, list_texts in zip(lists, texts, strict=True):
            own = vectors[[number[text] for text in list_texts]]  # [candidates, d]
            others = self._choice.others(ranked)
            scores = others.mean(cosines(own, others.places))
            reranked.append(order_by(ranked, scores, self.name))
        return reranked

    def costs(self) -> Counter[str]:
        """Counts since the last call: candidates without a part that the context names."""
        costs, self._costs = self._costs, Counter()
        return costs


def cosines(vectors: Vectors, places: Ints) -> Floats:
    """[candidates, others]: cosines of each candidate's vector, of length 1, with those at its `places`.

    >>> cosines(np.array([[1.0, 0.0], [0.6, 0.8]], np.float32), np.array([[1], [0]])).round(3).tolist()
    [[0.6], [0.6]]
    """
    exact = vectors.astype(np.float64)
    # Row by row, so that a sum does not depend on the other candidates.
    values: Floats = (exact[:, None, :] * exact[places]).sum(axis=2)
    return values
