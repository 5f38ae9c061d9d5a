"""`blend`: a list ordered by a weighted sum of scores that its candidates already have (`score_columns.py`).

It interpolates a model's scores with earlier ones, without a model and at no cost. Weights are
chosen by hand, or fitted (`fitting.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.blend.score_columns import WeightedSum
from answermill.ranking.rerankers.blend.weights import load_weights
from answermill.schemas.ranked import CandidateKind, RankedList


class Blend:
    """Reranker by Σ w · z over the named scores. Reads sentences, writes sentences."""

    name: ClassVar[str] = "blend"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, weights: Mapping[str, float]) -> None:
        """`weights`: name of a score → its weight."""
        self._sum = WeightedSum.of(weights)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        (weights,) = load_weights(resources)
        return cls(weights)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(ranked, self._sum.scores(ranked), self.name) for ranked in lists]


class BlendPassages(Blend):
    """Blend over passages."""

    name: ClassVar[str] = "blend_passages"
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"
