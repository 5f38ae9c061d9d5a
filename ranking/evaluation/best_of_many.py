"""Choice among many settings that were measured on the same questions, without mistaking luck for a gain.

The best of thirty settings is better than the usual one by chance alone. So the intervals hold for all
differences together (Romano & Wolf 2005): each is as wide as the largest of them all strays, in units of its
own scatter, when the questions are drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from answermill.schemas.arrays import Floats

_BLOCK = 200  # rounds of the bootstrap in memory at once
_NORMAL = 1.96  # standard errors of a 95 % interval of the normal distribution


@dataclass(frozen=True, slots=True)
class Differences:
    """Mean differences to the usual setting [settings], and the bounds that hold for all of them at once."""

    mean: Floats
    low: Floats
    high: Floats

    def best(self) -> int | None:
        """The setting of the highest mean among those that are surely better; of equal ones the first. None
        if none is."""
        better = np.where(self.low > 0, self.mean, -np.inf)
        return int(better.argmax()) if np.isfinite(better).any() else None


def differences(
    values: Floats, usual: int, rounds: int = 2_000, seed: int = 0, confidence: float = 0.95
) -> Differences:
    """Differences of `values` [settings, questions] to those of the setting of number `usual`.

    The scatter is taken around 0, so a gain of a few questions is never sure, even if it is the same for
    each. Raises ValueError if there is no question.

    >>> values = np.zeros((3, 40)); values[1] = 0.5; values[2, :2] = 1
    >>> gains = differences(values, 0)
    >>> gains.best(), gains.mean.tolist(), bool(gains.low[2] > 0)
    (1, [0.0, 0.5, 0.05], False)
    """
    questions = values.shape[1]
    if not questions:
        raise ValueError("no question; there must be at least one")

    difference = values - values[usual]
    mean = difference.mean(axis=1)
    scatter = np.sqrt((difference**2).mean(axis=1) / questions)  # [settings]
    moves = scatter > 0

    # A draw of questions with replacement is the number of times that each was drawn.
    generator, furthest = np.random.default_rng(seed), np.zeros(rounds)
    for first in range(0, rounds, _BLOCK):
        some = min(_BLOCK, rounds - first)
        drawn = generator.multinomial(questions, np.full(questions, 1 / questions), size=some)
        strayed = np.abs(drawn @ difference[moves].T / questions - mean[moves])  # [some, settings that move]
        furthest[first : first + some] = (strayed / scatter[moves]).max(axis=1, initial=0.0)

    # Of few questions, drawing them anew shows too little scatter.
    width = max(float(np.quantile(furthest, confidence)), _NORMAL) * scatter
    return Differences(mean, mean - width, mean + width)
