"""How fast a training learns, for people: tokens a second, and the memory that a graphics card has given."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from ranking.training.loop import Progress


class Speed:
    """Of the steps alone, since the training's last start; evaluations do not count."""

    def __init__(self, tokens: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`tokens`: of a mean step; 0 where no transformer learns."""
        self._tokens, self._clock = tokens, clock
        self._began = self._last = clock()
        self._steps, self._seconds, self._peak = 0, 0.0, 0

    def hear(self, state: Progress) -> None:
        """A step or an evaluation has ended."""
        now = self._clock()
        if state.dev is None:
            self._steps += 1
            self._seconds += now - self._last
        self._last = now
        if torch.cuda.is_available():  # again and again, since trials within an evaluation begin a new peak
            self._peak = max(self._peak, torch.cuda.max_memory_allocated())

    @property
    def tokens_per_s(self) -> int:
        """Of all processes together; 0 before the first step, and where no transformer learns."""
        return round(self._steps * self._tokens / self._seconds) if self._seconds else 0

    def __str__(self) -> str:
        said = [f"{self._last - self._began:.0f} s of training since its last start"]
        if self.tokens_per_s:
            said.append(f"{self.tokens_per_s:,} tokens a second in its steps")
        if self._peak:
            said.append(f"at most {self._peak / 1e9:.1f} GB of {torch.cuda.get_device_name()}")
        return ", ".join(said)
