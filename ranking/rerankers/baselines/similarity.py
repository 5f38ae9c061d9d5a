"""Cosine of the dense encoder's vectors of question and sentence: a reranker that needs no training.

Reads sentences, writes sentences. The encoder is the one that built the dense index. With a `context` a
sentence is encoded with its title, as an indexed passage is, or between its neighbours. With `stored` the
vectors are those that `index` has stored; missing ones are encoded and rounded in the same way, so a score is
the same with and without the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, SentenceCodes, SentenceEncoder, order_by
from answermill.ranking.rerankers.baselines import SimilarityStage
from answermill.ranking.rerankers.baselines.sentence_vectors import (
    VectorForm,
    encode,
    numbered,
    pack,
    unit,
    unpack,
)
from answermill.schemas.arrays import Vectors
from answermill.schemas.ranked import CandidateKind, RankedList

SENTENCE = Reading()
"""Default reading: the sentence alone."""


class Similarity:
    """Reranker by cos(question, sentence), in [-1, 1]; the sentence has the parts that the context names."""

    name: ClassVar[str] = "similarity"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(
        self,
        encoder: SentenceEncoder,
        reading: Reading = SENTENCE,
        form: VectorForm | None = None,
        store: SentenceCodes | None = None,
    ) -> None:
        """`form`: form of the vectors in `store`, and of those that it lacks; without it nothing is rounded
        or read."""
        self._encoder, self._form, self._store = encoder, form, store
        self.readings = (reading,)
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(SimilarityStage)
        return cls(resources.encoder(), stage.reading, stage.stored, resources.codes)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        (reading,) = self.readings
        texts = [list(reading.texts(ranked)) for ranked in lists]
        self._costs.update(reading.missing(reading.tuples(lists)) if reading.around else {})

        number = numbered(texts)  # each different text is encoded once

        if not number:
            return list(lists)

        # [lists, d].
        questions = unit(self._encoder.encode_questions([ranked.question.text for ranked in lists]))
        sentences = self._vectors(list(number), self._form)  # [different texts, d]
        reranked = []

        for question, ranked, list_texts in zip(questions, lists, texts, strict=True):
            rows = sentences[[number[text] for text in list_texts]]  # [candidates, d]
            # Row by row, so that a sum does not depend on the batch.
            scores = (rows.astype(np.float64) * question.astype(np.float64)).sum(axis=1)
            reranked.append(order_by(ranked, scores, self.name))

        return reranked

    def _vectors(self, texts: Sequence[tuple[str, ...]], form: VectorForm | None) -> Vectors:
        """[texts, d], of length 1: read, or encoded if not stored."""
        (reading,) = self.readings
        if form is None:
            return encode(self._encoder, reading, texts)
        stored = self._store.find(texts) if self._store else [None] * len(texts)
        missing = [text for text, row in zip(texts, stored, strict=True) if row is None]
        self._costs.update(sentences_stored=len(texts) - len(missing), sentences_encoded=len(missing))
        rows = [row.bits for row in stored if row is not None]  # each [1, bytes]
        if missing:
            rows.append(pack(encode(self._encoder, reading, missing), form))
        # [texts]: row of each text.
        place = np.argsort(np.argsort([row is None for row in stored], kind="stable"), kind="stable")
        return unit(unpack(np.concatenate(rows)[place], form))

    def costs(self) -> Counter[str]:
        """Counts since the last call: candidates without a part that the context names; and, if vectors are
        stored, the different texts of each call that were read, and those that were missing and encoded."""
        costs, self._costs = self._costs, Counter()
        return costs
