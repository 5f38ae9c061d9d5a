"""Agreement between annotators, and one label out of their votes. Pure functions over votes.

A vote is three whole numbers, one in each of three arrays of the same length: the item, the annotator, and
the label. An annotator votes once on an item. The coefficients take any number of classes; a coefficient that
chance alone would make 0 / 0 is None, with the reason. Weights and resolution are for labels 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A coefficient, the numbers of items and votes that it was computed from, and the reason if it has no
    value."""

    value: float | None
    items: int
    votes: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """`right` of `total`, and the Wilson interval of that share; None if `total` is 0."""

    right: int
    total: int

    @property
    def value(self) -> float | None:
        return self.right / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.right, self.total) if self.total else None


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes as arrays [n]: item, annotator, label, all from 0 or any whole numbers."""

    items: Ints
    annotators: Ints
    labels: Ints

    @classmethod
    def of(cls, votes: Iterable[tuple[int, int, int]]) -> Votes:
        """Votes from (item, annotator, label). Raises ValueError if an annotator votes twice on an item."""
        rows = np.array(sorted(votes), np.int64).reshape(-1, 3)
        again = np.flatnonzero((rows[1:, :2] == rows[:-1, :2]).all(1))
        if again.size:
            raise ValueError(f"annotator {rows[again[0], 1]} votes twice on item {rows[again[0], 0]}")
        return cls(rows[:, 0], rows[:, 1], rows[:, 2])

    def table(self) -> Ints:
        """[items, classes]: number of votes of each item in each class; both in ascending order."""
        _, item = np.unique(self.items, return_inverse=True)
        classes, label = np.unique(self.labels, return_inverse=True)
        shape = (int(item.max(initial=-1)) + 1, len(classes))
        return (
            np.bincount(item * shape[1] + label, minlength=shape[0] * shape[1])
            .reshape(shape)
            .astype(np.int64)
        )


def cohen(confusion: npt.ArrayLike) -> Figure:
    """Cohen's (1960) kappa of two annotators, from the number of items that one labels i and the other j:
    [classes, classes]."""
    counts = np.asarray(confusion, np.float64)
    n = int(counts.sum())
    if n == 0:
        return Figure(None, 0, 0, "no common item")
    observed = np.trace(counts) / n
    expected = float((counts.sum(0) * counts.sum(1)).sum()) / n**2
    return _kappa(float(observed), expected, n, 2 * n)


def fleiss(table: npt.ArrayLike) -> Figure:
    """Fleiss' (1971) kappa of items that all have the same number of votes, 2 or more: [items, classes]."""
    counts = np.asarray(table, np.float64)
    items, votes = len(counts), int(counts.sum())
    if items == 0:
        return Figure(None, 0, 0, "no item with two votes")

    item_votes = counts.sum(1)
    if item_votes[0] < 2 or (item_votes != item_votes[0]).any():
        raise ValueError(
            f"items have {int(item_votes.min())} to {int(item_votes.max())} votes; all must have the same "
            "number, at least 2"
        )

    observed = float(((counts**2).sum(1) - item_votes).sum() / (item_votes * (item_votes - 1)).sum())
    expected = float(((counts.sum(0) / votes) ** 2).sum())
    return _kappa(observed, expected, items, votes)


def same_votes(table: Ints) -> tuple[int, Ints]:
    """The number of votes, 2 or more, that most items have (the greatest of several), and these items' rows
    of the table."""
    item_votes = table.sum(1)
    items_with = np.bincount(item_votes[item_votes >= 2])  # [votes]
    if not items_with.size:
        return 0, table[:0]
    votes = len(items_with) - 1 - int(np.argmax(items_with[::-1]))
    return votes, table[item_votes == votes]


def krippendorff(table: npt.ArrayLike) -> Figure:
    """Krippendorff's (2011) alpha for nominal data with missing values: [items, classes]; items of one vote
    do not count."""
    counts = np.asarray(table, np.float64)
    counts = counts[counts.sum(1) >= 2]
    items, votes = len(counts), int(counts.sum())
    if items == 0:
        return Figure(None, 0, 0, "no item with two votes")
    item_votes, class_votes = counts.sum(1), counts.sum(0)
    # The sum off the diagonal of the coincidence matrix.
    observed = float(((item_votes**2 - (counts**2).sum(1)) / (item_votes - 1)).sum())
    expected = float(votes**2 - (class_votes**2).sum()) / (votes - 1)
    if expected == 0:
        return Figure(None, items, votes, "all votes are of one class")
    return Figure(1 - observed / expected, items, votes)


def _kappa(observed: float, expected: float, items: int, votes: int) -> Figure:
    if math.isclose(expected, 1, abs_tol=1e-12):
        return Figure(None, items, votes, "all votes are of one class")
    return Figure((observed - expected) / (1 - expected), items, votes)


def pairs(votes: Votes) -> dict[tuple[int, int], Figure]:
    """Cohen's kappa of every two annotators with items in common, the lesser first."""
    classes, label = np.unique(votes.labels, return_inverse=True)
    order = np.lexsort((votes.annotators, votes.items))
    items, annotators, label = votes.items[order], votes.annotators[order], label[order]
    confusions: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
    for lag in range(1, len(items)):  # until no item has more than `lag` votes
        same_item = np.flatnonzero(items[:-lag] == items[lag:])
        if not same_item.size:
            break
        first, second = same_item, same_item + lag
        common = np.column_stack([annotators[first], annotators[second], label[first], label[second]])
        for (a, b, i, j), count in zip(*np.unique(common, axis=0, return_counts=True), strict=True):
            confusions.setdefault((int(a), int(b)), np.zeros((len(classes), len(classes))))[i, j] += count
    return {pair: cohen(confusions[pair]) for pair in sorted(confusions)}


@dataclass(frozen=True, slots=True)
class Annotator:
    """Figures of one annotator's votes."""

    items: int
    positive: int
    """Votes of label 1."""
    with_others: Share
    """Votes like the majority of the others, on items where the others have one."""
    controls: Share
    """Votes like the known label, on items that have one."""


def annotators(votes: Votes, expected: Ints) -> dict[int, Annotator]:
    """Figures of each annotator; labels are 0 and 1. `expected` [n]: known label of each vote's item; -1 if
    there is none."""
    _, item = np.unique(votes.items, return_inverse=True)
    others = np.bincount(item)[item] - 1
    positive = np.bincount(item, votes.labels)[item].astype(np.int64) - votes.labels
    is_decided = 2 * positive != others
    is_agreed = is_decided & ((2 * positive > others) == (votes.labels == 1))
    is_known = expected >= 0
    is_right = is_known & (expected == votes.labels)
    names, name = np.unique(votes.annotators, return_inverse=True)
    # [annotators]
    items, ones, agreements, decisions, right_controls, controls = (
        np.bincount(name, counted, len(names)).astype(int).tolist()
        for counted in (np.ones_like(name), votes.labels, is_agreed, is_decided, is_right, is_known)
    )

    return {
        int(annotator): Annotator(
            items[n], ones[n], Share(agreements[n], decisions[n]), Share(right_controls[n], controls[n])
        )
        for n, annotator in enumerate(names)
    }


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share, of one item or more."""
    interval = binomtest(right, total).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def weight(controls: Share) -> float:
    """ln((right + 1) / (wrong + 1)): the log-odds of the accuracy on controls, with Laplace smoothing, but
    never below 0.

    The weight of a vote in the likeliest of two labels, if annotators err independently; one who is no better
    than chance has no weight.
    """
    return max(0.0, math.log((controls.right + 1) / (controls.total - controls.right + 1)))


def weights(controls: Sequence[Share]) -> list[float]:
    """The weight of each annotator; one without judged controls gets the mean of the others, or 1 if nobody
    has judged any."""
    control_weights = [weight(share) for share in controls if share.total]
    mean = sum(control_weights) / len(control_weights) if control_weights else 1.0
    return [weight(share) if share.total else mean for share in controls]


def resolve(votes: Sequence[tuple[int, float]]) -> tuple[int | None, float]:
    """The label of (label, weight)s, and the weighted share of label 1; None and 0.5 without any weight, None
    for a tie."""
    total = math.fsum(w for _, w in votes)
    if total <= 0:
        return None, 0.5
    positive = math.fsum(w for label, w in votes if label) / total
    if math.isclose(positive, 0.5, abs_tol=1e-9):
        return None, positive
    return int(positive > 0.5), positive
