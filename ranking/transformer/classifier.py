"""What turns a text's encoding into a score: the classifier of cross-encoders, which other models may take over."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ranking.context import Pooling
from ranking.transformer.packing import Packed
from ranking.transformer.pooling import pool


class Classifier(nn.Module):
    """C_ρ(i) of the Cascade Transformer (§4.3): the mean encoding [texts, d], or what else `Reading.pooling` says → a score per
    text [texts]."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, pooled: Tensor) -> Tensor:
        h = self.first(self.dropout(pooled)).tanh()
        h = self.second(self.dropout(h)).tanh()
        scores: Tensor = self.score(self.dropout(h))
        return scores.squeeze(1)


def classified(classifier: Classifier, hidden: Tensor, tokens: Packed, pooling: Pooling | None) -> Tensor:
    """Encodings [n, d] → logits [texts], in the classifier's own precision, never under autocast.

    `pooling` None: the encodings are one for each text already [texts, d].
    """
    with torch.autocast(hidden.device.type, enabled=False):
        pooled = hidden if pooling is None else pool(hidden, tokens, pooling)
    return classified_pooled(classifier, pooled)


def classified_pooled(classifier: Classifier, pooled: Tensor) -> Tensor:
    """One encoding of each text [texts, d] → logits [texts], as `classified`."""
    with torch.autocast(pooled.device.type, enabled=False):
        logits: Tensor = classifier(pooled.to(classifier.score.weight.dtype))
    return logits
