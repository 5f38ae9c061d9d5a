"""Dropout, with fewer random numbers on a processor."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def dropped(x: Tensor, share: float) -> Tensor:
    """Dropout. On a CPU, where drawing the numbers is a fifth of a training step, each random number of 64 bits decides over
    four elements; so the share is exact to 1 in 65,536."""
    if not share or x.is_cuda:
        return F.dropout(x, share)
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    least = round(share * 2**16) - 2**15
    kept = numbers.view(torch.int16)[: x.numel()].view(x.shape) >= least
    return x * kept.to(x.dtype).mul_(1 / (1 - share))
