"""Histograms of scores whose range is unknown until the last one: bins as wide as a power of two, merged by
twos whenever there are too many. The result depends on the scores alone, not on their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from answermill.pipelines.look.report.scored_blocks import Bools, Floats

BINS = 32
_NARROWEST = -20
"""Exponent of the width of the first bins: scores have six decimals."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Numbers of scores from `start` to below the next bin's."""

    start: float
    went: int
    """Candidates that the stage kept."""
    left: int
    """Candidates that left in the stage."""


@dataclass(slots=True)
class Histogram:
    """Histogram of the scores of a stage."""

    _exponent: int = _NARROWEST
    _kept: Counter[int] = field(default_factory=Counter)
    """Number of a bin → scores of candidates that the stage kept."""
    _left: Counter[int] = field(default_factory=Counter)

    def add(self, scores: Floats, left: Bools) -> None:
        """Add finite scores [n]; `left` [n] marks candidates that left in the stage."""
        for counter, some in ((self._kept, scores[~left]), (self._left, scores[left])):
            bins = np.floor(some / 2.0**self._exponent).astype(np.int64)
            numbers, counts = np.unique(bins, return_counts=True)
            counter.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))

        while self._spread() > BINS:
            self._exponent += 1
            self._kept, self._left = _halved(self._kept), _halved(self._left)

    def _spread(self) -> int:
        """Number of bins from the first that has a score to the last."""
        numbers = self._kept.keys() | self._left.keys()
        return max(numbers) - min(numbers) + 1 if numbers else 0

    @property
    def width(self) -> float:
        """Width of a bin."""
        return 2.0**self._exponent

    def bins(self) -> tuple[Bin, ...]:
        """All bins from the first that has a score to the last."""
        numbers = self._kept.keys() | self._left.keys()
        if not numbers:
            return ()
        return tuple(
            Bin(n * self.width, self._kept[n], self._left[n]) for n in range(min(numbers), max(numbers) + 1)
        )


def _halved(counter: Counter[int]) -> Counter[int]:
    halved: Counter[int] = Counter()
    for number, count in counter.items():
        halved[number // 2] += count
    return halved
