"""Contributions of tied candidates to a metric, on average over all their orders, in closed form (McSherry &
Najork, ECIR 2008).

P@k, MAP, MRR, nDCG@k and recall@k are sums over the places of a list, so a question's value is the sum over
its ties of the expectation that `Ties` gives. A candidate that ties with no other is a tie of one, and its
contribution is the textbook's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from answermill.schemas.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Ties:
    """Groups of candidates with equal scores, as arrays [ties]; a tie has the ranks start + 1 .. start + size
    of its list.

    The methods return arrays [ties]. Example: a correct candidate leads, and one of three that share the next
    ranks is correct.

    >>> ties = Ties(np.array([0, 1]), np.array([1, 3]), np.array([1, 1]), np.array([0, 1]), np.array([1.0, 1.0]))
    >>> ties.correct_within(2).round(2).tolist()
    [1.0, 0.33]
    """

    start: Ints
    """Candidates ranked before the tie."""
    size: Ints
    """Candidates of the tie, 1 or more."""
    correct: Ints
    """Correct candidates of the tie."""
    before: Ints
    """Correct candidates ranked before the tie."""
    gain: Floats
    """Sum of the gains of its candidates (nDCG)."""

    def places(self, cut: int) -> Ints:
        """Number of its places among the first `cut` ranks."""
        return np.clip(cut - self.start, 0, self.size)

    def correct_within(self, cut: int) -> Floats:
        """Correct candidates among the first `cut` ranks: the numerator of P@k and recall@k."""
        return self.correct / self.size * self.places(cut)

    def discounted_gain(self, cut: int) -> Floats:
        """DCG of the places among the first `cut` ranks, with the discount 1 / log2(rank + 1)."""
        return self.gain / self.size * self._sum_over_places(discounts(self._longest, cut))

    def average_precision(self) -> Floats:
        """Σ over its places of P(a correct candidate is there) · E[precision there, if so]: the numerator of
        MAP.

        If a correct candidate has place j of the tie, from 1, each other place holds one of the rest with
        probability `share` = (correct - 1) / (size - 1); so before + 1 + share · (j - 1) are correct up to
        that rank.
        """
        share = (self.correct - 1) / np.maximum(self.size - 1, 1)
        reciprocals = np.concatenate([[0.0], 1 / np.arange(1, self._longest + 1)])
        over_rank = (self.before + 1 - share * (self.start + 1)) * self._sum_over_places(reciprocals)
        return np.asarray(self.correct / self.size * (over_rank + share * self.size))

    def reciprocal_rank(self) -> Floats:
        """Σ over its places of P(the list's first correct candidate is there) / rank: MRR.

        In the first tie that has a correct candidate, place j is the first correct one with probability
        C(size - j, correct - 1) / C(size, correct).
        """
        first = np.flatnonzero((self.before == 0) & (self.correct > 0))
        places = (self.size - self.correct + 1)[first]  # later ones cannot be the first
        tie = np.repeat(first, places)
        j = np.arange(len(tie)) - np.repeat(np.cumsum(places) - places, places) + 1
        n, r = self.size[tie], self.correct[tie]
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self._longest + 1)))])
        log_chance = log_factorial[n - j] - log_factorial[r - 1] - log_factorial[n - j - r + 1]
        log_chance += log_factorial[r] + log_factorial[n - r] - log_factorial[n]
        return np.bincount(tie, np.exp(log_chance) / (self.start[tie] + j), len(self.size)).astype(np.float64)

    @property
    def _longest(self) -> int:
        return int((self.start + self.size).max(initial=0))

    def _sum_over_places(self, by_rank: Floats) -> Floats:
        """`by_rank` [ranks + 1] is a value per rank, from 1; entry 0 is 0."""
        end, total = self.start + self.size, np.cumsum(by_rank)
        differences = total[end] - total[self.start]
        return np.asarray(np.where(self.size == 1, by_rank[end], differences))  # one place: no rounding error


def discounts(ranks: int, cut: int) -> Floats:
    """[ranks + 1]: 1 / log2(rank + 1) for the first `cut` ranks, 0 beyond them, and 0 for rank 0.

    >>> discounts(ranks=4, cut=3).round(2).tolist()
    [0.0, 1.0, 0.63, 0.5, 0.0]
    """
    rank = np.arange(1, ranks + 1)
    return np.concatenate([[0.0], np.where(rank <= cut, 1 / np.log2(rank + 1), 0.0)])


def ideal_gain(question: Ints, gain: Floats | Ints, questions: int, cut: int) -> Floats:
    """[questions]: DCG of the best order of candidates with these question numbers and gains, [n] each, in
    any order.

    >>> ideal_gain(np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0]), questions=2, cut=10).round(2).tolist()
    [3.63, 2.0]
    """
    order = np.lexsort((-gain, question))
    question = question[order]
    rank = np.arange(len(order)) - np.searchsorted(question, question) + 1
    weighted = gain[order] * discounts(len(order), cut)[rank]
    return np.bincount(question, weighted, questions).astype(np.float64)
