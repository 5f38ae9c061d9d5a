"""Ensembles of models: a linear combination of their scores, its weights tuned on a dev set (MHS §3.2); and
the share of a head's correct answers that are a teacher's too (its Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from answermill.ranking.evaluation.metrics import Judged, Protocol, measure
from answermill.schemas.arrays import Bools, Floats, Ints

MOST_MODELS = 4
"""Largest number of models for which all combinations of the grid are tried."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The candidates of several questions with the scores of several models, as flat arrays of one length."""

    question: Ints
    """Number of the candidate's question, from 0."""
    label: Ints
    scores: Floats
    """[candidates, models]; NaN for a candidate that a model did not score. A combination with that model
    does not rank the candidate."""

    def value(self, weights: Sequence[float], metric: str, protocol: Protocol) -> float:
        """Mean of the metric for the combination Σ w_i s_i, exact under ties."""
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
    report: Callable[[], object] = lambda: None,
) -> tuple[tuple[float, ...], float]:
    """The best weights of the grid on these questions, and their value; of equal ones the most even.

    `report` is called after each combination. Raises ValueError for more models than MOST_MODELS.
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
        report()
        if best is None or value > best[1] + 1e-12:
            best = weights, value

    assert best is not None
    return best


def agreement(heads: Scored, teachers: Scored) -> Floats:
    """[heads, teachers]: share of a head's correct answers that are the teacher's answers too; NaN if the
    head has none.

    An answer is the question's first candidate: the highest score, of equal ones the first in the list.
    """
    head_rows, teacher_rows = _answers(heads), _answers(teachers)  # [questions, models]
    correct: Bools = heads.label[head_rows] > 0
    both = (head_rows[:, :, None] == teacher_rows[:, None, :]) & correct[:, :, None]
    counts = correct.sum(0)[:, None]
    return np.where(counts > 0, both.sum(0) / np.maximum(counts, 1), np.nan)


def _answers(scored: Scored) -> Ints:
    """[questions, models]: row of the question's first candidate by the model."""
    firsts = []
    for column in scored.scores.T:
        order = np.lexsort((np.arange(len(column)), -column, scored.question))
        firsts.append(order[np.unique(scored.question[order], return_index=True)[1]])
    return np.stack(firsts, 1)
