"""Attention over packed texts, each token over its own text; and dropout, with fewer random numbers on a
processor.

| | attention |
|---|---|
| a card from Ampere on, in half precision, without dropout or bias | PyTorch's over texts of all lengths, without padding |
| any card that learns otherwise: with dropout or a bias, in fp32, or before Ampere | one fused call, texts filled up to the longest |
| any card that serves with a bias or a window otherwise | a fused call for each run of texts of one length class, filled up to 16 tokens |
| any card that serves otherwise | a fused call for each run of texts of one length, whose bits no other text changes |
| a processor that serves | the same; with AVX-512 keys go on up to a multiple of 16 tokens, without a copy |
| a processor that serves in bf16 without tiles (AMX) | oneDNN's products and softmax over texts of one length |
| a processor that learns | the same, spelt out: PyTorch's kernels are slow at that |

Some families add numbers that depend on the distance of two tokens (`Distances`): MPNet a bias, ModernBERT a
window.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from answermill.ranking.transformer.devices import reads_all_lengths
from answermill.ranking.transformer.packing import Packed

_WHOLE, _ALIGNED = 32, 16
"""PyTorch's kernel for the CPU gives each thread a buffer of as many rows as there are queries, up to 32.
MKL's last bits depend on where a buffer begins, so a short text has queries up to a number that keeps the
buffers aligned: then no number of threads changes a bit."""
_SCORES = 1 << 19
"""Most scores that are computed at once by products, a megabyte in bf16, so that they stay in a cache."""
_LONGEST_PRODUCT = 1_024
"""Most tokens of a text whose scores are computed by products; those of longer ones take much memory."""
_LEAST_PRODUCT = 16**3
"""Size (rows · columns · depth of all heads) up to which PyTorch computes a text's product alone by another
kernel than among others."""

# The second serves heads of a width that the first refuses.
_BACKENDS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True, slots=True)
class Distances:
    """Part of attention's scores that depends on the distance of two tokens."""

    bias: Tensor | None = None
    """[heads, rows, length]: numbers to add, for rows and texts at least as long as those of the batch."""
    window: int | None = None
    """Largest distance at which a token is attended to; None = any."""
    _served: dict[tuple[object, ...], Tensor | None] = field(default_factory=dict, compare=False, repr=False)

    def __bool__(self) -> bool:
        return self.bias is not None or self.window is not None

    def mask(self, rows: int, length: int, like: Tensor) -> Tensor | None:
        """[1, heads or 1, rows, length] to add to the scores of texts of this length, for queries filled up to
        `rows`; None if there is nothing to add. It depends on the length alone, so a text's bits do too."""
        if self.bias is not None:
            return self.bias[None, :, :rows, :length].to(like.dtype)
        if self.window is None or length <= self.window + 1:
            return None
        places = torch.arange(max(rows, length), device=like.device)
        far = (places[:rows, None] - places[:length]).abs() > self.window
        return like.new_zeros(rows, length).masked_fill_(far, -torch.inf)[None, None]

    def mask_beyond(self, rows: int, length: int, keys: int, like: Tensor) -> Tensor | None:
        """`mask` for texts with keys after their own, up to this number, which get the weight 0; made once
        for all layers of a batch."""
        key = rows, length, keys, like.dtype
        if key not in self._served:
            mask = self.mask(rows, length, like)
            if keys > length:
                mask = like.new_zeros(1, 1, 1, length) if mask is None else mask
                mask = F.pad(mask, (0, keys - length), value=-torch.inf)
            self._served[key] = mask
        return self._served[key]


ANY_DISTANCE = Distances()


def toeplitz(by_distance: Tensor, length: int) -> Tensor:
    """[heads, length, length] whose element i, j is that of the distance j - i in `by_distance`
    [heads, 2 length - 1], which begins with the distance 1 - length.

    >>> toeplitz(torch.tensor([[-1, 0, 1]]), 2).tolist()
    [[[0, 1], [-1, 0]]]
    """
    return by_distance.unfold(1, length, 1).flip(1)


def attend(
    projected: Tensor,
    tokens: Packed,
    heads: int,
    dropout: float = 0.0,
    distances: Distances = ANY_DISTANCE,
) -> Tensor:
    """Attention of each token over its own text [n, d], from queries, keys and values side by side [n, 3 d].

    Rows after the tokens' are filling; so are as many rows of the result, whatever is in them.
    """
    halved = projected.is_cuda and projected.dtype != torch.float32
    packs = halved and len(projected) and not dropout and distances.bias is None
    takes_all_lengths = packs and reads_all_lengths(projected.device)
    if takes_all_lengths and (over_all_lengths := attention_over_all_lengths(distances.window)):
        query, key, value = projected.view(len(projected), 3, heads, -1).unbind(1)
        longest = int(tokens.lengths.max())
        return over_all_lengths(query, key, value, tokens.starts, tokens.starts, longest, longest).flatten(1)

    if projected.is_cuda and torch.is_grad_enabled() and len(projected):
        return attend_filled_up(projected, tokens, heads, dropout, distances)
    if projected.is_cuda and distances:
        return attend_by_class(projected, tokens, heads, distances)
    if not projected.is_cuda and not torch.is_grad_enabled():
        return _attend_on_processor(projected, tokens, heads, distances)
    return _attend_by_length(projected, tokens, heads, dropout, distances)


@functools.cache
def attention_over_all_lengths(window: int | None = None) -> Callable[..., Tensor] | None:
    """PyTorch's attention over packed texts of different lengths, in one split: with several, the longest
    text of a batch would decide how a text's sums are cut. None if this PyTorch lacks it or one of its
    parameters."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    settings: dict[str, Any] = {"num_splits": 1}
    if window is not None:
        settings["window_size"] = (window, window)
    if not settings.keys() <= inspect.signature(varlen_attn).parameters.keys():
        return None
    return cast(Callable[..., Tensor], functools.partial(varlen_attn, **settings))


def attend_filled_up(
    projected: Tensor,
    tokens: Packed,
    heads: int,
    dropout: float,
    distances: Distances = ANY_DISTANCE,
) -> Tensor:
    """`attend` in one fused call. Batches to learn from hold texts of much the same length, so little is
    filled up.

    A card uses CUTLASS' kernel: cuDNN would build a new plan for the shape of every batch, which takes longer
    than the step. With `distances` texts are filled up to a multiple of 16 tokens, as the kernel wants the
    rows of its mask.
    """
    texts, longest = len(tokens.lengths), int(tokens.lengths.max())
    if distances:
        longest += -longest % _ALIGNED
    places = tokens.places(longest)
    filled = projected.new_zeros(texts * longest, projected.shape[1]).index_copy(
        0, places, projected[: len(places)]
    )
    query, key, value = filled.view(texts, longest, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

    # [texts, 1, 1, longest]: true at tokens, false at filling.
    mask = (torch.arange(longest, device=projected.device) < tokens.starts.diff()[:, None])[:, None, None]
    if (added := distances.mask(longest, longest, query)) is not None:
        # Filling sees itself: a row that sees nothing, as behind a window, would have no number as its sum.
        itself = torch.eye(longest, dtype=torch.bool, device=projected.device)
        mask = torch.where(mask | itself, added, -torch.inf)  # [texts, heads or 1, longest, longest]
    with sdpa_kernel(_BACKENDS) if projected.is_cuda else nullcontext():
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    return attended.transpose(1, 2).reshape(texts * longest, -1)[places]


def attend_by_class(projected: Tensor, tokens: Packed, heads: int, distances: Distances) -> Tensor:
    """`attend` in one fused call for each run of texts whose lengths need as many multiples of 16 tokens. A
    text's bits depend on its own length alone."""
    classes = -(-tokens.lengths // _ALIGNED)
    edges = np.flatnonzero(np.diff(classes, prepend=-1, append=-1))
    parts, text = [], 0
    for stop in edges[1:].tolist():
        rows, part = tokens.between(text, stop)
        parts.append(attend_filled_up(projected[rows], part, heads, 0.0, distances))
        text = stop
    return torch.cat([*parts, projected.new_zeros(len(projected) - len(tokens.ids), projected.shape[1] // 3)])


def _attend_by_length(
    projected: Tensor, tokens: Packed, heads: int, dropout: float, distances: Distances
) -> Tensor:
    spelt_out = not projected.is_cuda
    parts = []
    for group in tokens.by_length(projected[: len(tokens.ids)]):
        texts, length = group.shape[:2]
        # [texts, heads, length, d / heads].
        query, key, value = group.view(texts, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mask = distances.mask(length, length, query)
        if spelt_out:
            scores = query / math.sqrt(query.shape[-1]) @ key.mT
            scores = scores if mask is None else scores + mask
            attended = dropped(scores.softmax(-1), dropout) @ value
        else:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        parts.append(attended.transpose(1, 2).reshape(texts * length, -1))

    if filling := len(projected) - len(tokens.ids):
        parts.append(projected.new_zeros(filling, projected.shape[1] // 3))
    return torch.cat(parts) if parts else projected.new_empty(0, projected.shape[1] // 3)


def _attend_on_processor(projected: Tensor, tokens: Packed, heads: int, distances: Distances) -> Tensor:
    """`attend` on a processor that serves: each run of texts of one length by the faster of two ways, so that
    a text's bits depend on its own length alone."""
    n, width = len(tokens.ids), projected.shape[1] // 3
    attended = projected.new_empty(len(projected), width)
    attended[n:] = 0
    has_products = _has_quick_products(projected.dtype)
    for first, texts, length in tokens.groups:
        place = attended[first : first + texts * length].view(texts, length, heads, -1)
        if has_products and length <= _LONGEST_PRODUCT and width * length**2 > _LEAST_PRODUCT:
            rows = projected[first : first + texts * length].view(texts, length, 3, heads, -1)
            _attend_by_products(place, rows, distances)
        else:
            filled = length + (-length % _ALIGNED if length < _WHOLE or _takes_16_at_once() else 0)
            rows = _reading_on(projected[:n], first, texts, length, filled)
            _attend_reading_on(place, rows.view(texts, filled, 3, heads, -1), distances)

    return attended


def _attend_reading_on(place: Tensor, rows: Tensor, distances: Distances) -> None:
    """Write attention over texts of one length to `place` [texts, length, heads, d / heads] by PyTorch's
    kernel. Keys and values of `rows` [texts, filled, 3, heads, d / heads] go on over the rows after a text,
    with the weight 0. They change no bit if they are finite, as the encodings of a model without damage are.

    With AVX-512 the kernel takes the exponential of 16 scores at once and of those that are left one by one,
    which for a text of 100 tokens takes as long as all else.
    """
    (length, filled), (query, key, value) = (place.shape[1], rows.shape[1]), rows.permute(2, 0, 3, 1, 4)
    if length >= _WHOLE:
        query = query[:, :, :length]
    mask = distances.mask_beyond(query.shape[2], length, filled, query)
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    place.copy_(attended[:, :, :length].transpose(1, 2))


def _attend_by_products(place: Tensor, rows: Tensor, distances: Distances) -> None:
    """Write attention over texts of one length to `place` [texts, length, heads, d / heads] by oneDNN's
    products and softmax, from `rows` [texts, length, 3, heads, d / heads]; a few texts or heads at a time,
    whose scores stay in a core's cache.

    PyTorch's kernel calls MKL for each head and for 32 of its queries, which takes two to three times as
    long.
    """
    texts, length, _, heads, _ = rows.shape
    at_once = max(1, _SCORES // length**2)
    some_texts, some_heads = max(1, at_once // heads), min(heads, at_once)
    mask = distances.mask_beyond(length, length, length, rows)  # [1, heads or 1, length, length]
    for text, head in itertools.product(range(0, texts, some_texts), range(0, heads, some_heads)):
        of_texts, of_heads = slice(text, text + some_texts), slice(head, head + some_heads)
        parts = rows[of_texts, :, :, of_heads].permute(2, 0, 3, 1, 4)
        added = mask[:, of_heads] if mask is not None and mask.shape[1] > 1 else mask
        place[of_texts, :, of_heads].copy_(_products(parts, added).transpose(1, 2))


def _products(parts: Tensor, mask: Tensor | None) -> Tensor:
    """[texts, heads, length, d / heads], from queries, keys and values [3, texts, heads, length, d / heads];
    `mask` [1, heads or 1, length, length] is added to the scores."""
    texts, heads, length = parts.shape[1:4]
    query, key, value = parts.flatten(1, 2).unbind(0)  # [texts · heads, length, d / heads]
    scale = query.shape[-1] ** -0.5
    if mask is None:
        scores = query.new_empty(len(query), length, length).baddbmm_(query, key.mT, beta=0, alpha=scale)
    else:
        scores = mask[0].repeat(len(query) // mask.shape[1], 1, 1).baddbmm_(query, key.mT, alpha=scale)
    weights = scores.to_mkldnn().softmax(-1).to_dense()
    return (weights @ value).view(texts, heads, length, -1)


@functools.cache
def _has_quick_products(precision: torch.dtype) -> bool:
    """True in bf16 on a processor that multiplies it, but not in tiles (AMX): with those PyTorch's kernel is
    quick."""
    can = torch.cpu.get_capabilities()
    has_bf16 = bool(can.get("avx512_bf16")) and not can.get("amx_bf16")
    return precision == torch.bfloat16 and has_bf16 and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


@functools.cache
def _takes_16_at_once() -> bool:
    """True if PyTorch's kernels for this processor compute with 16 numbers of fp32 at once."""
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def _reading_on(rows: Tensor, first: int, texts: int, length: int, filled: int) -> Tensor:
    """[texts, filled, columns]: rows of texts of one length from row `first` on, each text with the rows
    after it. It is a view, or a copy, filled up with 0, where the rows end before.

    >>> _reading_on(torch.arange(5)[:, None], 0, 2, 2, 3)[..., 0].tolist()
    [[0, 1, 2], [2, 3, 4]]
    >>> _reading_on(torch.arange(5)[:, None], 1, 2, 2, 3)[..., 0].tolist()
    [[1, 2, 0], [3, 4, 0]]
    """
    last = first + (texts - 1) * length + filled
    if last <= len(rows):
        return rows[first:last].unfold(0, filled, length).transpose(1, 2)
    whole = rows[first : first + texts * length].view(texts, length, -1)
    return F.pad(whole, (0, 0, 0, filled - length))


def dropped(x: Tensor, share: float) -> Tensor:
    """Dropout. On a CPU, where drawing the numbers is a fifth of a training step, each random number of 64
    bits decides over four elements; so the share is exact to 1 in 65,536."""
    if not share or x.is_cuda:
        return F.dropout(x, share)
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    least = round(share * 2**16) - 2**15
    kept = numbers.view(torch.int16)[: x.numel()].view(x.shape) >= least
    return x * kept.to(x.dtype).mul_(1 / (1 - share))
