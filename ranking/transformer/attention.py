"""Attention over packed texts, each token over its own text; and dropout, with fewer random numbers on a
processor.

| | attention |
|---|---|
| a card from Ampere on, in half precision, without dropout | PyTorch's over texts of all lengths, without padding |
| any card that learns otherwise: with dropout, in fp32, or before Ampere | one fused call, texts filled up to the longest |
| any card that serves otherwise | a fused call for each run of texts of one length, whose bits no other text changes |
| a processor | the same; where it learns, spelt out: PyTorch's kernels are slow at that |
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from answermill.ranking.transformer.devices import reads_all_lengths
from answermill.ranking.transformer.packing import Packed

_WHOLE, _ALIGNED = 32, 16
"""PyTorch's kernel for the CPU gives each thread a buffer of as many rows as there are queries, up to 32.
MKL's last bits depend on where a buffer begins, so a short text's queries are filled up to a number of rows
that keeps the buffers aligned: then no number of threads changes a bit."""
# The second serves heads of a width that the first refuses.
_BACKENDS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attend(projected: Tensor, tokens: Packed, heads: int, dropout: float = 0.0) -> Tensor:
    """Attention of each token over its own text [n, d], from queries, keys and values side by side [n, 3 d].

    Rows after the tokens' are filling; so are as many rows of the result, whatever is in them.
    """
    halved = projected.is_cuda and projected.dtype != torch.float32
    takes_all_lengths = halved and len(projected) and not dropout and reads_all_lengths(projected.device)
    if takes_all_lengths and (over_all_lengths := attention_over_all_lengths()):
        query, key, value = projected.view(len(projected), 3, heads, -1).unbind(1)
        longest = int(tokens.lengths.max())
        return over_all_lengths(query, key, value, tokens.starts, tokens.starts, longest, longest).flatten(1)
    if projected.is_cuda and torch.is_grad_enabled() and len(projected):
        return attend_filled_up(projected, tokens, heads, dropout)
    return _attend_by_length(projected, tokens, heads, dropout)


@functools.cache
def attention_over_all_lengths() -> Callable[..., Tensor] | None:
    """PyTorch's attention over packed texts of different lengths, in one split: with several, the longest
    text of a batch would decide how a text's sums are cut. None if this PyTorch lacks it or its parameter for
    the number of splits."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    if "num_splits" not in inspect.signature(varlen_attn).parameters:
        return None
    return cast(Callable[..., Tensor], functools.partial(varlen_attn, num_splits=1))


def attend_filled_up(projected: Tensor, tokens: Packed, heads: int, dropout: float) -> Tensor:
    """`attend` in one fused call. Batches to learn from hold texts of much the same length, so little is
    filled up.

    A card uses CUTLASS' kernel: cuDNN would build a new plan for the shape of every batch, which takes longer
    than the step.
    """
    texts, longest = len(tokens.lengths), int(tokens.lengths.max())
    filled = projected.new_zeros(texts * longest, projected.shape[1]).index_copy(0, tokens.places, projected)
    query, key, value = filled.view(texts, longest, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    # [texts, longest]: true at tokens, false at filling.
    present = torch.arange(longest, device=projected.device) < tokens.starts.diff()[:, None]
    with sdpa_kernel(_BACKENDS) if projected.is_cuda else nullcontext():
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=present[:, None, None], dropout_p=dropout
        )
    return attended.transpose(1, 2).reshape(texts * longest, -1)[tokens.places]


def _attend_by_length(projected: Tensor, tokens: Packed, heads: int, dropout: float) -> Tensor:
    # On a CPU PyTorch's kernels are slow at learning.
    spelt_out = torch.is_grad_enabled() and not projected.is_cuda
    parts = []
    for group in tokens.by_length(projected[: len(tokens.ids)]):
        texts, length = group.shape[:2]
        query, key, value = group.view(texts, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if spelt_out:
            weights = (query / math.sqrt(query.shape[-1]) @ key.mT).softmax(-1)
            attended = dropped(weights, dropout) @ value
        else:
            if length < _WHOLE and not projected.is_cuda:
                query = F.pad(query, (0, 0, 0, -length % _ALIGNED))
            # [texts, heads, length, d / heads].
            attended = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
            attended = attended[:, :, :length]
        parts.append(attended.transpose(1, 2).reshape(texts * length, -1))

    if filling := len(projected) - len(tokens.ids):
        parts.append(projected.new_zeros(filling, projected.shape[1] // 3))
    return torch.cat(parts) if parts else projected.new_empty(0, projected.shape[1] // 3)


def dropped(x: Tensor, share: float) -> Tensor:
    """Dropout. On a CPU, where drawing the numbers is a fifth of a training step, each random number of 64
    bits decides over four elements; so the share is exact to 1 in 65,536."""
    if not share or x.is_cuda:
        return F.dropout(x, share)
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    least = round(share * 2**16) - 2**15
    kept = numbers.view(torch.int16)[: x.numel()].view(x.shape) >= least
    return x * kept.to(x.dtype).mul_(1 / (1 - share))
