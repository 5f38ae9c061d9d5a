"""Histograms of scores whose range nobody knows before the last one: bins as wide as a power of two, which
are merged by twos whenever there are too many. The result depends on the scores alone, not on their order."""

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
    """Scores from `start` on, below the next bin's, of candidates that the stage let go on and of those that
    left in it."""

    start: float
    went: int
    left: int


@dataclass(slots=True)
class Histogram:
    """The scores of a stage."""

    _exponent: int = _NARROWEST
    _went: Counter[int] = field(default_factory=Counter)
    _left: Counter[int] = field(default_factory=Counter)

    def add(self, scores: Floats, left: Bools) -> None:
        """Add scores [n], which are finite; `left` [n] says whose candidates left in the stage."""
        for counter, some in ((self._went, scores[~left]), (self._left, scores[left])):
            places, counts = np.unique(
                np.floor(some / 2.0**self._exponent).astype(np.int64), return_counts=True
            )
            counter.update(dict(zip(places.tolist(), counts.tolist(), strict=True)))
        while self._spread() > BINS:
            self._exponent += 1
            self._went, self._left = _halved(self._went), _halved(self._left)

    def _spread(self) -> int:
        places = self._went.keys() | self._left.keys()
        return max(places) - min(places) + 1 if places else 0

    @property
    def width(self) -> float:
        """Of a bin."""
        return 2.0**self._exponent

    def bins(self) -> tuple[Bin, ...]:
        """All bins from the first that has a score to the last."""
        places = self._went.keys() | self._left.keys()
        if not places:
            return ()
        return tuple(
            Bin(n * self.width, self._went[n], self._left[n]) for n in range(min(places), max(places) + 1)
        )


def _halved(counter: Counter[int]) -> Counter[int]:
    halved: Counter[int] = Counter()
    for place, count in counter.items():
        halved[place // 2] += count
    return halved
