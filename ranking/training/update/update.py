"""One step: the gradient of one batch's loss, or of the mean over several, and the update of the weights.

In fp16, gradients would fall below its smallest numbers, so the loss is multiplied before and the gradients
are divided after (Micikevicius et al. 2018, §3.2). If the factor was too large, and a gradient is infinite,
the step leaves the weights as they are and the next one halves the factor. bf16 has the range of fp32 and
needs none of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from answermill.ranking.training.update.processes import Processes
from answermill.ranking.transformer.devices import dtype_of
from answermill.schemas.arrays import TrainingPrecision


def mixed(device: str, precision: TrainingPrecision) -> torch.autocast:
    """Context in which a training's matrix products have its precision. `device`: 'cpu' or 'cuda'."""
    return torch.autocast(device, dtype_of(precision, device), enabled=precision != "fp32")


class Updates:
    """Computes the steps of a training."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        precision: TrainingPrecision,
        clip: float | None,
        batches: int,
        processes: Processes,
        seed: int,
    ) -> None:
        """`batches`: batches of a step, shared by the processes. Raises ValueError if they cannot be shared
        evenly."""
        if batches % processes.count:
            raise ValueError(
                f"train.accumulate = {batches} batches a step cannot be shared evenly by {processes.count} "
                "processes; give a "
                f"multiple of {processes.count}"
            )

        self._optimizer, self._clip, self._processes, self._seed = optimizer, clip, processes, seed
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        device = self._parameters[0].device.type
        self._autocast = mixed(device, precision)
        self.scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
        self.scaler.scale(torch.zeros((), device=device))  # begins here, where a process may get no batch
        self.batches = batches

    def epoch_steps(self, batches: Iterator[Any], done: int) -> Iterator[Sequence[Any]]:
        """Batches of each step of an epoch, after the first `done` steps; the last step may have fewer."""
        batches = islice(batches, done * self.batches, None)
        while step := list(islice(batches, self.batches)):
            yield step

    def step(self, number: int, batches: Sequence[Any], loss_of: Callable[[Any], Tensor]) -> float:
        """Change the weights by the gradient of the batches' mean loss, and return it. `number` of the step,
        from 0.

        Raises ValueError if a loss is no number.
        """
        self._optimizer.zero_grad(set_to_none=True)
        total, processes = 0.0, self._processes

        for n in range(processes.rank, len(batches), processes.count):
            if self.batches > 1:  # dropout of a batch does not depend on the process that computes it
                torch.manual_seed(self._seed * 1_000_003 + number * self.batches + n)
            with self._autocast:
                loss = loss_of(batches[n]) / len(batches)
            torch.autograd.backward(self.scaler.scale(loss))
            total += loss.item()  # after it: a card computes the gradient while the host waits for the loss
            if not math.isfinite(total):
                raise ValueError(f"step {number}: the loss is {total}; try a lower learning_rate")

        mean = processes.add_up(self._parameters, total)
        self.scaler.unscale_(self._optimizer)
        if self._clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self.scaler.step(self._optimizer)
        self.scaler.update()

        return mean
