"""Features of a candidate in its list: how high it scores, how far ahead it is, and how many stages agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from answermill.ranking.rerankers.blend.score_columns import column
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import RankedList

LEAD, MEAN_LEAD, AGREEMENT = "lead", "mean_lead", "agreement"
OF_THE_LIST = (LEAD, MEAN_LEAD, AGREEMENT)


def feature_names(stages: Sequence[str]) -> tuple[str, ...]:
    """Names of the features, in their order. `stages`: keys of the plan's stages."""
    return (*OF_THE_LIST, *stages)


def list_features(ranked: RankedList, stages: Sequence[str]) -> Floats:
    """[candidates, features]: features of each candidate, by its scores of the `stages` of its plan, of which
    the last has ordered the list. Raises ValueError for a candidate without one of these scores."""
    if not ranked.candidates:
        return np.empty((0, len(feature_names(stages))))
    scores = np.stack([column(ranked, stage) for stage in stages], axis=1)
    last = scores[:, -1]
    agreement = (scores == scores.max(axis=0)).mean(axis=1)
    return np.column_stack([leads(last), last - last.mean(), agreement, scores])


def leads(scores: Floats) -> Floats:
    """[candidates]: each score minus the best of the others; 0 of a single one.

    >>> leads(np.array([3.0, 1.0, 0.5])).tolist()
    [2.0, -2.0, -2.5]
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    second, first = np.sort(scores)[-2:]
    ahead: Floats = np.where(np.arange(len(scores)) == scores.argmax(), scores - second, scores - first)
    return ahead
