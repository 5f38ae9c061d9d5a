"""Cosine of the dense encoder's vectors of question and sentence: a reranker that needs no training.

Reads sentences, writes sentences. The encoder is the one that the dense index was built with. With a
`context` a sentence is encoded with its title, as a passage is where it is indexed, or between its
neighbours. With `stored` the vectors are those that `index` has stored, and what it has not is encoded and
rounded as they are: a score is the same with and without the store.
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
    StoredForm,
    Vectors,
    encode,
    pack,
    unit,
    unpack,
)
from answermill.schemas.ranked import RankedList, Unit

SENTENCE = Reading()
"""The sentence alone."""


class Similarity:
    """Score = cos(question, sentence), in [-1, 1]; or of the sentence with what the context names."""

    name: ClassVar[str] = "similarity"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(
        self,
        encoder: SentenceEncoder,
        reading: Reading = SENTENCE,
        form: StoredForm | None = None,
        store: SentenceCodes | None = None,
    ) -> None:
        """`form`: that of the vectors in `store`, and of those that it does not hold; without it nothing is
        rounded or read."""
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

        number: dict[tuple[str, ...], int] = {}  # each different text is encoded once
        for of_list in texts:
            for text in of_list:
                number.setdefault(text, len(number))

        if not number:
            return list(lists)

        # [lists, d].
        questions = unit(self._encoder.encode_questions([ranked.question.text for ranked in lists]))
        sentences = self._vectors(list(number), self._form)  # [different texts, d]
        reranked = []

        for question, ranked, of_list in zip(questions, lists, texts, strict=True):
            rows = sentences[[number[text] for text in of_list]]  # [candidates, d]
            # Row by row: no batch in the sum.
            scores = (rows.astype(np.float64) * question.astype(np.float64)).sum(axis=1)
            reranked.append(order_by(ranked, scores, self.name))

        return reranked

    def _vectors(self, texts: Sequence[tuple[str, ...]], form: StoredForm | None) -> Vectors:
        """[texts, d], of length 1: read, or encoded where nothing is stored."""
        (reading,) = self.readings
        if form is None:
            return encode(self._encoder, reading, texts)
        stored = self._store.find(texts) if self._store else [None] * len(texts)
        missing = [text for text, row in zip(texts, stored, strict=True) if row is None]
        self._costs.update(sentences_stored=len(texts) - len(missing), sentences_encoded=len(missing))
        rows = [row.bits for row in stored if row is not None]  # each [1, bytes]
        if missing:
            rows.append(pack(encode(self._encoder, reading, missing), form))
        # Text → its row.
        place = np.argsort(np.argsort([row is None for row in stored], kind="stable"), kind="stable")
        return unit(unpack(np.concatenate(rows)[place], form))

    def costs(self) -> Counter[str]:
        """Since the last call: candidates without a part that the context names; and, if vectors are stored,
        how many different texts of each call were read, and how many were not there and were encoded."""
        spent, self._costs = self._costs, Counter()
        return spent
