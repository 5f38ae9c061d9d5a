"""Is B better than A, question by question: paired randomisation test and bootstrap interval (Smucker et al., CIKM 2007);
Wilcoxon's signed-rank test and Spearman's rank correlation, which others report (MHS Table 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

EQUAL = 1e-9
"""Values nearer than this are equal: the noise of sums decides no win."""
_BLOCK = 1 << 22  # random numbers held at once


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of A and B over the same questions. `low` .. `high` is the 95 % interval of `difference` = B - A."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    wins: int
    ties: int
    losses: int
    wilcoxon_p: float
    """Two-sided, ties left out; 1 where all are ties."""
    spearman: float | None
    """ρ of A's and B's values; None where one side has but one value, or there are fewer than three questions."""
    spearman_p: float | None


def compare(
    a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], rounds: int = 10_000, seed: int = 0, confidence: float = 0.95
) -> Comparison:
    """Compare the values of A and B, [questions] each, in the same order; wins are B's.

    `p` is two-sided: how often a difference this large comes out when A and B are swapped at random for each question.
    `low` and `high` are percentiles of the mean difference over questions drawn with replacement. Raises ValueError where
    the lengths differ, no question is there, or rounds are below 1.
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"A has {len(a)} questions and B {len(b)}; both must have the same, at least one")
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}; it must be at least 1")
    difference = b - a
    difference[np.abs(difference) < EQUAL] = 0.0
    mean = float(difference.mean())
    moved = difference[difference != 0]
    generator = np.random.default_rng(seed)
    means, extreme = [], 0
    step = max(1, _BLOCK // len(difference))
    for first in range(0, rounds, step):
        count = min(step, rounds - first)
        signs = generator.integers(0, 2, (count, len(moved)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ moved) >= abs(moved.sum()) - EQUAL).sum())
        means.append(difference[generator.integers(0, len(difference), (count, len(difference)))].mean(axis=1))
    tail = 100 * (1 - confidence) / 2
    spearman, spearman_p = _spearman(a, b)
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return Comparison(
        a=float(a.mean()),
        b=float(b.mean()),
        difference=mean,
        low=float(low),
        high=float(high),
        p=(extreme + 1) / (rounds + 1),
        wins=int((difference > 0).sum()),
        ties=int((difference == 0).sum()),
        losses=int((difference < 0).sum()),
        wilcoxon_p=float(stats.wilcoxon(moved.round(9), method="approx").pvalue) if len(moved) else 1.0,
        spearman=spearman,
        spearman_p=spearman_p,
    )


def _spearman(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    if len(a) < 3 or not np.ptp(a) or not np.ptp(b):
        return None, None
    found = stats.spearmanr(a.round(9), b.round(9))
    return float(found.statistic), float(found.pvalue)
