"""Ensembles of models: a linear combination of their scores, its weights tuned on a dev set (MHS §3.2); and
how often a head's correct answers are a teacher's (its Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from answermill.ranking.evaluation.arrays import Bools, Floats, Ints
from answermill.ranking.evaluation.metrics import Judged, Protocol, measure

MOST_MODELS = 4
"""For which every combination of the grid is tried."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The candidates of several questions with the scores of several models, as flat arrays of one length."""

    question: Ints
    """Number of the candidate's question, from 0."""
    label: Ints
    scores: Floats
    """[candidates, models]; NaN for a candidate that a model did not score; a combination that has the model
    does not rank it."""

    def value(self, weights: Sequence[float], metric: str, protocol: Protocol) -> float:
        """The metric's mean of the combination Σ w_i s_i, exact under ties."""
        weighed = np.array(weights)
        ranked = np.asarray(~np.isnan(self.scores[:, weighed != 0]).any(1))
        judged = self._judged(np.nan_to_num(self.scores) @ weighed, ranked)
        kept = judged.kept(protocol)
        return float(measure(judged, [metric])[metric].expected[kept].mean())

    def kept(self, protocol: Protocol) -> int:
        """Number of questions that count."""
        return int(
            self._judged(np.zeros(len(self.label)), np.ones(len(self.label), np.bool_)).kept(protocol).sum()
        )

    def complete(self) -> Scored:
        """The candidates that all models have scored."""
        rows = ~np.isnan(self.scores).any(1)
        return Scored(self.question[rows], self.label[rows], self.scores[rows])

    def _judged(self, score: Floats, ranked: Bools) -> Judged:
        return Judged(int(self.question.max(initial=-1)) + 1, self.question, score, self.label, ranked)


def simplex(models: int, parts: int) -> list[tuple[float, ...]]:
    """All weights that are multiples of 1 / parts and whose sum is 1; the most even first."""
    grid = []
    for bars in combinations(range(parts + models - 1), models - 1):
        edges = (-1, *bars, parts + models - 1)
        grid.append(tuple((b - a - 1) / parts for a, b in pairwise(edges)))
    return sorted(grid, key=lambda weights: (round(sum(w * w for w in weights), 9), weights))


def tuned(
    scored: Scored,
    metric: str,
    protocol: Protocol,
    parts: int = 20,
    tell: Callable[[], object] = lambda: None,
) -> tuple[tuple[float, ...], float]:
    """The weights of the grid that are best on these questions, and how good; of equal ones the most even.

    Raises ValueError for more models than MOST_MODELS, whose grid is too large.
    """
    models = scored.scores.shape[1]
    if models > MOST_MODELS:
        raise ValueError(
            f"{models} models: a grid of {parts} parts is for at most {MOST_MODELS}; give trials, which "
            "sample"
        )

    best: tuple[tuple[float, ...], float] | None = None
    for weights in simplex(models, parts):
        value = scored.value(weights, metric, protocol)
        tell()
        if best is None or value > best[1] + 1e-12:
            best = weights, value

    assert best is not None
    return best


def agreement(heads: Scored, teachers: Scored) -> Floats:
    """[heads, teachers]: of a head's correct answers, the share that is the teacher's answer too; NaN where
    it has none.

    An answer is the question's first candidate: the highest score, of equal ones the first in the list.
    """
    ours, theirs = _answers(heads), _answers(teachers)  # [questions, models]
    correct: Bools = heads.label[ours] > 0
    both = (ours[:, :, None] == theirs[:, None, :]) & correct[:, :, None]
    counts = correct.sum(0)[:, None]
    return np.where(counts > 0, both.sum(0) / np.maximum(counts, 1), np.nan)


def _answers(scored: Scored) -> Ints:
    """[questions, models]: the row of each model's first candidate of each question."""
    firsts = []
    for column in scored.scores.T:
        order = np.lexsort((np.arange(len(column)), -column, scored.question))
        firsts.append(order[np.unique(scored.question[order], return_index=True)[1]])
    return np.stack(firsts, 1)
