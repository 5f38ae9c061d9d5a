"""The two kinds of layers of the encoder: BERT's, which end with a normalisation, and ModernBERT's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers.attention import ANY_DISTANCE, Distances, attend, toeplitz
from answermill.ranking.transformer.layers.row_windows import by_rows, gated, summed, widened
from answermill.ranking.transformer.packing import Packed

_FARTHEST = 128
"""Distance from which all distances are of one class of MPNet's bias."""
_TURNED = 64
"""Rows that a processor turns at once, so that what is computed on the way stays in a core's cache."""


@dataclass(frozen=True, slots=True)
class Places:
    """Places of a batch's tokens in their texts, as layers read them; made once for all layers."""

    distances: Distances = ANY_DISTANCE
    turns: tuple[Tensor, Tensor] | None = None
    """Cosines and sines of each token's angles, where layers attend to the whole text, see `_turns`."""
    local_turns: tuple[Tensor, Tensor] | None = None
    """The same where they attend to near tokens."""

    @classmethod
    def of(cls, tokens: Packed, shape: Shape, relative: Tensor | None, hidden: Tensor) -> Places:
        """`relative`: bias of each class of distances [buckets, heads]; `hidden`: encodings [n, d], which may
        have rows of filling."""
        if relative is not None:
            # Attention fills short texts up to a multiple of 16.
            longest = int(tokens.lengths.max(initial=1)) + 15
            bias = toeplitz(relative[buckets(longest, len(relative)).to(relative.device)].t(), longest)
            return cls(Distances(bias))

        if (rotary := shape.rotary) is None:
            return cls()

        positions = F.pad(tokens.positions, (0, len(hidden) - len(tokens.positions)))
        turns, local_turns = (
            _turns(positions, shape.width // shape.heads, theta, hidden.dtype)
            for theta in (rotary.theta, rotary.local_theta)
        )
        return cls(Distances(window=rotary.window), turns, local_turns)


def buckets(length: int, number: int) -> Tensor:
    """[2 length - 1]: class of each distance j - i from 1 - length on, as MPNet has them (Raffel et al. 2020,
    §2.1): half of them for tokens behind; of each half the first half one by one, then in growing steps.

    >>> buckets(3, 32).tolist()
    [2, 1, 0, 17, 18]
    """
    distance = torch.arange(1 - length, length)
    half = number // 2
    near = half // 2
    steps = (distance.abs().float() / near).log() / math.log(_FARTHEST / near) * (half - near)
    far = (near + steps.long()).clamp(max=half - 1)
    return torch.where(distance > 0, half, 0) + torch.where(distance.abs() < near, distance.abs(), far)


def _turns(positions: Tensor, width: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines [n, 1, 1, width] of the angles by which positions [n] turn a head's pairs of numbers
    (RoFormer, Su et al. 2021, Eq. 15), rounded to the precision. The sines of a pair's first number are those
    of minus its angle."""
    frequencies = theta ** -(torch.arange(0, width, 2, device=positions.device).float() / width)
    angles = (positions[:, None] * frequencies)[:, None, None]
    cosines, sines = angles.cos().to(dtype).float(), angles.sin().to(dtype).float()
    return cosines.repeat(1, 1, 1, 2), torch.cat((-sines, sines), -1)


def turned(projected: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Queries, keys and values [n, 3, heads, d / heads], of which queries and keys are turned by their
    positions; in inference in the same memory."""
    if torch.is_grad_enabled():
        queries_keys = _complex_product(projected[:, :2], *turns).to(projected.dtype)
        return torch.cat((queries_keys, projected[:, 2:]), 1)

    cosines, sines = turns
    at_once = max(1, len(projected)) if projected.is_cuda else _TURNED
    for start in range(0, len(projected), at_once):
        rows = slice(start, start + at_once)
        queries_keys = projected[rows, :2]
        queries_keys.copy_(_complex_product(queries_keys, cosines[rows], sines[rows]))
    return projected


def _complex_product(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Queries and keys x [n, 2, heads, d / heads], turned, in fp32: each pair of numbers is a complex number,
    times that of its angle. The second number of a pair lies half a head behind the first.

    >>> quarter = torch.tensor([0.0, 0.0]), torch.tensor([-1.0, 1.0])
    >>> _complex_product(torch.tensor([3.0, 4.0]), *quarter).tolist()
    [-4.0, 3.0]
    """
    first, second = (exact := x.float()).chunk(2, -1)
    return exact * cosines + torch.cat((second, first), -1) * sines


def layer_of(shape: Shape, number: int) -> Layer | ModernLayer:
    """A new layer of this shape. `number`: its place, counted from the transformer's first layer, 0."""
    return Layer(shape) if shape.rotary is None else ModernLayer(shape, number)


class Layer(nn.Module):
    """Attention and the two linear layers after it, each with its residual sum and normalisation."""

    is_gated = False

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.attention = nn.Linear(shape.width, 3 * shape.width)  # query, key and value
        self.output = nn.Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.widen = nn.Linear(shape.width, shape.inner)
        self.narrow = nn.Linear(shape.inner, shape.width)
        self.final_norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.most_rows: int | None = None
        """Most rows that inference computes at once."""

    def forward(self, hidden: Tensor, tokens: Packed, places: Places, first_only: bool = False) -> Tensor:
        """Map [n, d] to [n, d], or to the first token of each text alone [texts, d]. Rows after the tokens'
        are filling."""
        projected = by_rows(self.attention, self.shape, hidden, most=self.most_rows)  # [n, 3 d]
        dropout = self.shape.attention_dropout if self.training else 0.0
        attended = attend(projected, tokens, self.shape.heads, dropout, places.distances)
        if first_only:
            first = tokens.starts[:-1].long()
            attended, hidden = attended[first], hidden[first]
        return by_rows(self.after_attention, self.shape, attended, hidden, most=self.most_rows)

    def after_attention(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """h [n, d] after the layer, from attention's result and h before it."""
        dropout = self.shape.dropout if self.training else 0.0
        hidden = self.norm(summed(attended, self.output, hidden, dropout))
        wide = widened(hidden, self.widen)
        normalised: Tensor = self.final_norm(summed(wide, self.narrow, hidden, dropout))
        return normalised


class ModernLayer(nn.Module):
    """ModernBERT's layer (Warner et al. 2024, §2.1): attention over rotated queries and keys, then a gated
    linear layer; each reads the normalised sum so far and adds to it. No module has a bias.

    Our choice: where dropout is set, it follows both, as in BERT; published models have none.
    """

    is_gated = True

    def __init__(self, shape: Shape, number: int) -> None:
        """`number`: the layer's place, from 0. The first reads embeddings that are normalised already."""
        super().__init__()
        assert shape.rotary is not None
        self.shape, self.is_local = shape, shape.rotary.is_local(number)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon, bias=False) if number else None
        self.attention = nn.Linear(shape.width, 3 * shape.width, bias=False)  # query, key and value
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        self.final_norm = nn.LayerNorm(shape.width, shape.epsilon, bias=False)
        self.widen = nn.Linear(shape.width, 2 * shape.inner, bias=False)  # values and their gates
        self.narrow = nn.Linear(shape.inner, shape.width, bias=False)
        self.most_rows: int | None = None

    def forward(self, hidden: Tensor, tokens: Packed, places: Places, first_only: bool = False) -> Tensor:
        """Map [n, d] to [n, d], as `Layer` does."""
        turns = places.local_turns if self.is_local else places.turns
        assert turns is not None
        projected = by_rows(self._projected, self.shape, hidden, most=self.most_rows)
        projected = turned(projected.view(len(hidden), 3, self.shape.heads, -1), turns).flatten(1)  # [n, 3 d]

        distances = places.distances if self.is_local else ANY_DISTANCE
        dropout = self.shape.attention_dropout if self.training else 0.0
        attended = attend(projected, tokens, self.shape.heads, dropout, distances)
        if first_only:
            first = tokens.starts[:-1].long()
            attended, hidden = attended[first], hidden[first]
        return by_rows(self.after_attention, self.shape, attended, hidden, most=self.most_rows)

    def _projected(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.attention(hidden if self.norm is None else self.norm(hidden))
        return projected

    def after_attention(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """h [n, d] after the layer, from attention's result and h before it."""
        dropout = self.shape.dropout if self.training else 0.0
        hidden = summed(attended, self.output, hidden, dropout)
        return summed(gated(self.final_norm(hidden), self.widen), self.narrow, hidden, dropout)
