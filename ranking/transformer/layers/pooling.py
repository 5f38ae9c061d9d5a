"""Pooling of the encodings of a text's tokens into one of the text, as classifiers and the dense index read
it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from answermill.ranking.context import Pooling
from answermill.ranking.transformer.packing import Packed, ranges
from answermill.schemas.arrays import Ints


def pool(hidden: Tensor, tokens: Packed, pooling: Pooling = "mean") -> Tensor:
    """One encoding per text, [texts, d] in fp32: its first token's, the mean of all, or the mean of the
    candidate's own tokens, which is 0 if it has none."""
    if pooling == "first":
        return hidden[tokens.starts[:-1].long()].float()

    lengths = counts = tokens.starts.diff().long()
    if pooling == "candidate":
        hidden = hidden * tokens.own[:, None]
        own_before = F.pad(tokens.own.cumsum(0), (1, 0))[tokens.starts.long()]  # [texts + 1]
        counts = own_before.diff().clamp(min=1)

    if hidden.is_cuda:
        sums = torch.segment_reduce(hidden.float(), "sum", lengths=lengths, axis=0, unsafe=True)
    else:  # segment_reduce is slow on a processor
        groups = [group.sum(1, dtype=torch.float32) for group in tokens.by_length(hidden)]
        sums = torch.cat(groups) if groups else hidden.float()

    return sums / counts[:, None]


def pool_stretches(hidden: Tensor, starts: Ints, lengths: Ints) -> Tensor:
    """Mean encoding of each stretch of tokens [stretches, d] in fp32, each summed by itself and in its order,
    so that it does not depend on the rest of the batch. `starts`, `lengths`: first token of each stretch, and
    its number of tokens, at least one."""
    rows, offsets = (
        torch.from_numpy(x).to(hidden.device) for x in (ranges(starts, lengths), np.cumsum(lengths) - lengths)
    )
    if not len(lengths):
        return hidden.new_zeros(0, hidden.shape[1], dtype=torch.float32)
    return F.embedding_bag(rows, hidden.float(), offsets, mode="mean")
