"""EASI with a vector for each sentence (not the paper's): it reads the whole passage, and its title if PR
does.

A sentence's vector is the mean of its own tokens, and a classifier scores it. The softmax is over all
sentences of the passage, so no k is fixed.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from answermill.ranking.rerankers.peasi.extractor import ExtractorName, Stretches
from answermill.ranking.transformer.classifier import Classifier, classified_pooled
from answermill.ranking.transformer.layers.pooling import pool_stretches
from answermill.ranking.transformer.packing import Packed
from answermill.schemas.arrays import Ints


class Span(Classifier):
    """Classifier that gives a sentence's logit from its vector [d]."""

    name: ClassVar[ExtractorName] = "span"
    stored: ClassVar[str] = "span."

    @property
    def window(self) -> None:
        """No limit: a window has as many sentences as fit."""
        return None

    def counts(self, filled: npt.NDArray[np.bool_]) -> Ints:
        """One vector for each sentence."""
        return np.asarray(filled.sum(1), np.int64)

    def vectors(self, hidden: Tensor, tokens: Packed, stretches: Stretches) -> Tensor:
        """Mean encoding of each sentence's own tokens [sentences, d]."""
        return pool_stretches(hidden, *stretches)

    def rows(self, filled: Tensor) -> Tensor:
        """Number of each sentence among all; at a place without one, the number before it.

        >>> Span(width=8, dropout=0.0).rows(torch.tensor([[True, True], [True, False]])).tolist()
        [[0, 1], [2, 2]]
        """
        return filled.flatten().cumsum(0).view_as(filled) - 1

    def logits(self, vectors: Tensor, filled: Tensor) -> Tensor:
        """Logits of the sentences at their places in the windows [windows, k], 0 at the others."""
        logits = classified_pooled(self, vectors)
        return logits.new_zeros(filled.shape).masked_scatter(filled, logits)

    def chosen(self, vectors: Tensor, rows: Tensor, eligible: Tensor, first: Tensor) -> Tensor:
        """Vectors of the best sentences; 0 if a passage has none."""
        nothing = rows.new_tensor(len(vectors))  # the row of zeros behind all vectors
        return F.pad(vectors, (0, 0, 0, 1))[rows.where(eligible, nothing)]

    def take(self, other: Classifier) -> None:
        """Take over another's classifier, or a cross-encoder's."""
        self.load_state_dict(other.state_dict())
