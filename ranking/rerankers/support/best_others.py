"""The other candidates with which each one of a list is compared, and their weights.

They are the best by a score that all have; ties are decided by the ids, so that the order of the list decides
nothing. Each weighs exp(z) of that score, standardised within the list, and the weights of a candidate's
others sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.blend.score_columns import column, standardised
from answermill.ranking.rerankers.support import EvidenceStage
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.ranked import RankedList

WITHOUT_STAGES = "log_rank"
"""Score by which others are chosen where no stage is before."""


@dataclass(frozen=True, slots=True)
class BestOthers:
    """The best others of each candidate of a list."""

    places: Ints
    """[candidates, others]: their places in the list."""
    weights: Floats
    """[candidates, others]: their weights, whose sum is 1."""

    @classmethod
    def of(cls, scores: Floats, ids: Sequence[str], most: int) -> Self:
        """The `most` best others of candidates with these scores [candidates], or all if they are fewer.

        >>> BestOthers.of(np.array([1.0, 3.0, 2.0]), ["a", "b", "c"], 1).places.tolist()
        [[1], [2], [1]]
        """
        order = np.array(sorted(range(len(ids)), key=lambda n: (-scores[n], ids[n])), np.int64)
        z = np.empty(len(ids))
        # In the order of the scores, since the last digits of a sum depend on the order.
        z[order] = standardised(scores[order], np.zeros(len(ids), np.int64))

        best = order[: most + 1].tolist()
        number = min(most, max(0, len(ids) - 1))
        rows = [[n for n in best if n != own][:number] for own in range(len(ids))]
        places = np.array(rows, np.int64).reshape(len(ids), number)

        weights = np.exp(z[places])
        return cls(places, weights / weights.sum(axis=1, keepdims=True))

    def mean(self, evidence: Floats) -> Floats:
        """[candidates]: weighted mean of each row of evidence [candidates, others]; 0 without others."""
        mean: Floats = (self.weights * evidence).sum(axis=1)
        return mean


@dataclass(frozen=True, slots=True)
class Choice:
    """The score that chooses the others, and their number."""

    by: str
    most: int

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """Choice of a stage. Raises ValueError like `EvidenceStage.check_scores`."""
        stage = resources.stage(EvidenceStage)
        stage.check_scores(resources.before)
        last = resources.before[-1].key if resources.before else WITHOUT_STAGES
        return cls(stage.by or last, stage.others)

    def others(self, ranked: RankedList) -> BestOthers:
        """The best others of each candidate. Raises ValueError for a candidate without the score."""
        ids = [candidate.candidate_id for candidate in ranked.candidates]
        return BestOthers.of(column(ranked, self.by), ids, self.most)
