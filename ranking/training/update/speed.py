"""Speed of a training, for display: tokens a second, the peak of a graphics card's memory, and the share of
the card's peak speed in matrix products that the training reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

import torch
from torch.utils.flop_counter import FlopCounterMode

from answermill.ranking.training.loop import TrainingProgress, TrainingTask
from answermill.ranking.training.update.update import mixed
from answermill.ranking.transformer.devices import dtype_of, peak_flops
from answermill.schemas.arrays import TrainingPrecision

TRIED = 8
"""Number of batches whose operations are counted: a step may train one exit of several."""


def share_of_peak(
    task: TrainingTask, tokens: float, precision: TrainingPrecision, peak: float | None = None
) -> float:
    """Share of the task's device that learning from one token a second keeps busy: operations of matrix
    products and attention, forward and backward, as PyTorch counts them, over those that the device does a
    second in large square matrices.

    `tokens`: tokens of a mean batch. `peak`: operations a second; None = measured. The weights do not change.
    """
    device = next(task.model.parameters()).device
    peak = peak or peak_flops(device, dtype_of(precision, device))
    batches = list(islice(task.batches(0), TRIED))
    task.model.train()
    with FlopCounterMode(display=False) as counter:
        for batch in batches:
            with mixed(device.type, precision):
                loss = task.loss(batch)
            torch.autograd.backward(loss)
            task.model.zero_grad(set_to_none=True)
    operations: int = counter.get_total_flops()
    return operations / (len(batches) * tokens * peak)


class Speed:
    """Speed of the steps alone, since the training's last start; evaluations do not count."""

    def __init__(
        self, tokens: float, share_of_peak: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`tokens`: tokens of a mean step; 0 if no transformer learns. `share_of_peak`: share of all cards
        together that one token a second takes; 0 = not counted."""
        self._tokens, self._share_of_peak, self._clock = tokens, share_of_peak, clock
        self._began = self._last = clock()
        self._steps, self._seconds, self._peak = 0, 0.0, 0

    def add(self, progress: TrainingProgress) -> None:
        """Count a step or an evaluation that has just ended."""
        now = self._clock()
        if progress.dev is None:
            self._steps += 1
            self._seconds += now - self._last
        self._last = now
        if torch.cuda.is_available():  # again and again, since trials within an evaluation begin a new peak
            self._peak = max(self._peak, torch.cuda.max_memory_allocated())

    @property
    def tokens_per_s(self) -> int:
        """Tokens a second of all processes together; 0 before the first step, or if no transformer learns."""
        return round(self._steps * self._tokens / self._seconds) if self._seconds else 0

    def __str__(self) -> str:
        figures = [f"{self._last - self._began:.0f} s of training since its last start"]
        if self.tokens_per_s:
            figures.append(f"{self.tokens_per_s:,} tokens a second in its steps")
        if self._share_of_peak:
            figures.append(f"{self.tokens_per_s * self._share_of_peak:.0%} of the peak in matrix products")
        if self._peak:
            figures.append(f"at most {self._peak / 1e9:.1f} GB of {torch.cuda.get_device_name()}")
        return ", ".join(figures)
