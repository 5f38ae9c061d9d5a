"""Agreement of the orders of a plan: shared first candidates, and rank correlation of shared candidates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from answermill.pipelines.look.report.scored_blocks import Bools, Floats, Ints, ScoredBlock

RETRIEVAL = "retrieval's order"
LEAST = 3
"""Candidates that both orders must have for a rank correlation of a question."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two orders, over all questions that have both."""

    a: str
    b: str
    questions: int
    same_first: float
    """Share of the questions whose first candidate by A is their first by B."""
    spearman: float | None
    """Mean over questions of the rank correlation of the candidates that both rank; None if no question has
    three such candidates."""


class Agreements:
    """Sums of the agreement of each two of a plan's orders: retrieval's and the stages'."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        self._names = (RETRIEVAL, *stages)
        self._pairs = list(combinations(range(len(self._names)), 2))
        # Questions, same first, questions with a correlation, their sum.
        self._sums = np.zeros((len(self._pairs), 4))

    def add(self, block: ScoredBlock) -> None:
        """Add the questions of a block."""
        questions = len(block.question_ids)
        orders = [block.position + 1, *block.stage_rank.T]
        ranks = [np.where(block.is_answer_kind, order, 0) for order in orders]
        firsts = [_first(rank, block.question, questions) for rank in ranks]

        for n, (a, b) in enumerate(self._pairs):
            both = (firsts[a] >= 0) & (firsts[b] >= 0)
            rho = _correlations(ranks[a], ranks[b], block.question, questions)
            counted = ~np.isnan(rho)
            self._sums[n] += (
                both.sum(),
                (both & (firsts[a] == firsts[b])).sum(),
                counted.sum(),
                rho[counted].sum(),
            )

    def result(self) -> tuple[Agreement, ...]:
        return tuple(
            Agreement(
                self._names[a],
                self._names[b],
                int(questions),
                float(same / questions) if questions else 0.0,
                float(total / counted) if counted else None,
            )
            for (a, b), (questions, same, counted, total) in zip(self._pairs, self._sums, strict=True)
        )


def _first(rank: Ints, question: Ints, questions: int) -> Ints:
    """[questions]: row of the candidate with the lowest rank other than 0; -1 if there is none."""
    rows = np.flatnonzero(rank > 0)
    order = rows[np.lexsort((rows, rank[rows], question[rows]))]
    first = np.full(questions, -1, np.int64)
    first[question[order[::-1]]] = order[::-1]  # of several values the last one written stays
    return first


def _correlations(a: Ints, b: Ints, question: Ints, questions: int) -> Floats:
    """[questions]: Spearman's ρ of two orders over the candidates that both rank; NaN if fewer than LEAST."""
    both: Bools = (a > 0) & (b > 0)
    shared = question[both]
    size = np.bincount(shared, minlength=questions)
    x, y = (_centred(_places(order[both], shared), shared, size) for order in (a, b))
    xy, xx, yy = (np.bincount(shared, product, questions) for product in (x * y, x * x, y * y))
    rho = np.full(questions, np.nan)
    enough = (size >= LEAST) & (xx > 0) & (yy > 0)
    rho[enough] = xy[enough] / np.sqrt(xx[enough] * yy[enough])
    return rho


def _centred(values: Floats, question: Ints, size: Ints) -> Floats:
    """Values less the mean of their question."""
    mean = np.bincount(question, values, len(size)) / np.maximum(size, 1)
    return np.asarray(values - mean[question])


def _places(rank: Ints, question: Ints) -> Floats:
    """Places of the candidates by rank among those of their question. Equal ranks, as of sentences from one
    passage, get the mean of their places."""
    key = question * (int(rank.max(initial=0)) + 1) + rank
    _, tie, count = np.unique(key, return_inverse=True, return_counts=True)
    end = np.cumsum(count)
    return np.asarray((end - (count - 1) / 2)[tie])
