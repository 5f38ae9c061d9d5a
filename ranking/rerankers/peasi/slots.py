"""EASI of the paper (§2.2): the encoding of a window's first token scores the k slots of the window."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from answermill.ranking.rerankers.peasi.extractor import ExtractorName, Stretches
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed
from answermill.schemas.arrays import Ints


class Slots(nn.Linear):
    """W [k, d]: E(q, c1 … ck) Wᵀ, whose softmax over a passage's sentences is p(c1) … p(ck)."""

    name: ClassVar[ExtractorName] = "slots"
    stored: ClassVar[str] = "sentence."

    def __init__(self, width: int, slots: int) -> None:
        super().__init__(width, slots, bias=False)

    @property
    def window(self) -> int:
        """k."""
        return self.out_features

    def counts(self, filled: npt.NDArray[np.bool_]) -> Ints:
        """One vector for each window."""
        return np.ones(len(filled), np.int64)

    def vectors(self, hidden: Tensor, tokens: Packed, stretches: Stretches) -> Tensor:
        """E(q, c1 … ck) [windows, d]."""
        return pool(hidden, tokens, "first")

    def rows(self, filled: Tensor) -> Tensor:
        """Number of the window at each of its slots.

        >>> Slots(width=8, slots=2).rows(torch.tensor([[True, True], [True, False]])).tolist()
        [[0, 0], [1, 1]]
        """
        return torch.arange(len(filled), device=filled.device)[:, None].expand_as(filled)

    def logits(self, vectors: Tensor, filled: Tensor) -> Tensor:
        """E Wᵀ [windows, k]."""
        with torch.autocast(vectors.device.type, enabled=False):
            logits: Tensor = self(vectors.to(self.weight.dtype))
        return logits

    def chosen(self, vectors: Tensor, rows: Tensor, eligible: Tensor, first: Tensor) -> Tensor:
        """E of the windows with the best sentences; of the first window if a passage has none."""
        return vectors[rows.where(eligible, first)]

    def take(self, other: Slots) -> None:
        """Take over another's slots, or its first ones. Raises ValueError if it has fewer."""
        if other.window < self.window:
            raise ValueError(
                f"its EASI has {other.window} slots, not {self.window}; give slots of at most {other.window}"
            )
        with torch.no_grad():
            self.weight.copy_(other.weight[: self.window])
