"""Extractor of EASI (§2.2): vectors of the windows of a passage, and from these a logit for each sentence in
them.

There are two: `slots.py` is the paper's, `span.py` is not. Both score windows of sentences, in which `filled`
[windows, k] marks the places that have a sentence. Neither knows of passages: the reader computes the softmax
over all windows of a passage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from answermill.ranking.context import Pooling
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed
from answermill.schemas.arrays import Ints

ExtractorName = Literal["slots", "span"]
Stretches: TypeAlias = tuple[Ints, Ints]
"""First token of each sentence, and its number of tokens: `Pairs.stretches`."""


class VectorReading(Protocol):
    """A reading of encoded texts, as vectors of d numbers; an `Extractor` is one."""

    def counts(self, filled: npt.NDArray[np.bool_]) -> Ints:
        """[texts]: number of vectors of each text."""

    def vectors(self, hidden: Tensor, tokens: Packed, stretches: Stretches) -> Tensor:
        """Vectors [vectors, d], text by text, from the encodings of all tokens [n, d]."""


class WholeText(NamedTuple):
    """Reading of PR: one vector per text."""

    pooling: Pooling

    def counts(self, filled: npt.NDArray[np.bool_]) -> Ints:
        return np.ones(len(filled), np.int64)

    def vectors(self, hidden: Tensor, tokens: Packed, stretches: Stretches) -> Tensor:
        return pool(hidden, tokens, self.pooling)


class Extractor(VectorReading, Protocol):
    """A reader of windows, which scores their sentences."""

    name: ClassVar[ExtractorName]
    stored: ClassVar[str]
    """Prefix of its weights' names in checkpoints."""

    @property
    def window(self) -> int | None:
        """Most sentences of a window; None: the whole passage, as far as it fits."""

    def rows(self, filled: Tensor) -> Tensor:
        """[windows, k]: number of the vector that represents each sentence."""

    def logits(self, vectors: Tensor, filled: Tensor) -> Tensor:
        """Logits of the sentences [windows, k or more], in its own precision, never under autocast (§2.3)."""

    def chosen(self, vectors: Tensor, rows: Tensor, eligible: Tensor, first: Tensor) -> Tensor:
        """Vectors that PR ⊕ EASI reads beside passages [passages, d]: those of their best sentences, by
        number in `rows`.

        `eligible` [passages]: true if there is one. `first` [passages]: number of the passage's first window.
        """

    def take(self, other: Self) -> None:
        """Take over the weights of another of its kind."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


def side_by_side(logits: Tensor, filled: Tensor, counts: Tensor) -> Tensor:
    """Logits [passages, most windows · k] of each passage's windows side by side, from those of windows
    [windows, k]; −∞ where `filled` [windows, k] is False. `counts` [passages]: windows of each.

    >>> logits, filled = torch.tensor([[1.0, 2.0], [3.0, 0.0], [4.0, 5.0]]), torch.tensor([[True, True], [True, False]] * 2)[:3]
    >>> side_by_side(logits, filled, torch.tensor([2, 1])).tolist()
    [[1.0, 2.0, 3.0, -inf], [4.0, 5.0, -inf, -inf]]
    """
    passages = torch.split(logits.masked_fill(~filled, -torch.inf), counts.tolist())
    return pad_sequence(
        [windows.flatten() for windows in passages], batch_first=True, padding_value=-torch.inf
    )
