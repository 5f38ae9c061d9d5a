"""Processes that train together, one on each graphics card; `torchrun` starts and numbers them.

All hold the same weights. Each computes its share of a step's batches; then the gradients are added up, so
that every process changes its weights in the same way. The first alone evaluates, and writes. Departs from
PyTorch's DistributedDataParallel: its model has one `forward`, and the same gradients in each step; ours have
many, and a step may teach one exit of several. Ours does not send gradients while others are computed, and
loses that gain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed
from torch import nn

_WAIT = timedelta(days=1)
"""Time limit of the first process' evaluation. If a process ends, torchrun ends the others."""


@dataclass(frozen=True, slots=True)
class Processes:
    """This process' place among those that train together."""

    rank: int = 0
    """Number of this process, from 0."""
    count: int = 1

    def add_up(self, parameters: Sequence[nn.Parameter], loss: float) -> float:
        """Give each parameter the sum of the processes' gradients, if any process has one. Returns the sum of
        their losses."""
        if self.count == 1:
            return loss
        present = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        torch.distributed.all_reduce(present)
        learnt = [p for p, processes in zip(parameters, present.tolist(), strict=True) if processes]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learnt]
        flat = torch.cat([present.new_tensor([loss]), *(gradient.flatten() for gradient in gradients)])
        torch.distributed.all_reduce(flat)
        total, *parts = torch.split(flat, [1, *(p.numel() for p in learnt)])
        for parameter, part in zip(learnt, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        return float(total)

    def from_first(self, value: float, device: torch.device) -> float:
        """The first process' value; the others' values are ignored."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=device)
        torch.distributed.broadcast(shared, 0)
        return shared.item()


ALONE = Processes()


class NoCard(ValueError):
    """More processes were started than there are cards."""


@contextmanager
def together(device: str) -> Iterator[Processes]:
    """The processes of torchrun in the block, each on another card if `device` is 'cuda'; ALONE without
    torchrun.

    Raises NoCard if there are fewer cards than processes.
    """
    if not torch.distributed.is_torchelastic_launched():
        yield ALONE
        return

    if device == "cuda":
        local, cards = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= cards:
            raise NoCard(
                f"torchrun starts more processes here than the {cards} cards; give --nproc-per-node {cards}"
            )
        torch.cuda.set_device(local)

    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_WAIT)
    try:
        yield Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())
    finally:
        torch.distributed.destroy_process_group()
