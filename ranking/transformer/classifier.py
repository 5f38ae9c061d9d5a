"""Heads that turn a text's encoding into a score: the classifier of cross-encoders, which other models may
take over, and the head with which a sequence classifier was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.context import Pooling
from answermill.ranking.transformer.huggingface.families import Activation
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed


class Classifier(nn.Module):
    """C_ρ(i) of the Cascade Transformer (§4.3): a score per text [texts] from its mean encoding [texts, d],
    or the encoding of another `Reading.pooling`."""

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


_FUNCTIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "relu": F.relu,
}


class PublishedHead(nn.Module):
    """Head with which published models classify texts: a logit [texts] from the first token's encoding, or
    the mean of all tokens' [texts, d].

    With two classes it is the second's logit minus the first's, whose sigmoid is the second's probability.
    ELECTRA's has GELU, DistilBERT's ReLU, ModernBERT's GELU and a normalisation. Departs from BERT in
    training alone: its pooler has no dropout before it, and here all have one.
    """

    def __init__(
        self,
        width: int,
        dropout: float,
        activation: Activation = "gelu",
        normalises: bool = False,
        pooling: Pooling = "first",
    ) -> None:
        """`pooling`: encoding that the published model reads."""
        super().__init__()
        self.first, self.score = nn.Linear(width, width), nn.Linear(width, 1)
        self.norm = nn.LayerNorm(width) if normalises else None
        self.dropout, self.activation, self.pooling = nn.Dropout(dropout), activation, pooling

    def forward(self, pooled: Tensor) -> Tensor:
        h = _FUNCTIONS[self.activation](self.first(self.dropout(pooled)))
        h = h if self.norm is None else self.norm(h)
        scores: Tensor = self.score(self.dropout(h))
        return scores.squeeze(1)


ClassifierHead: TypeAlias = Classifier | PublishedHead
HeadName = Literal["classifier", "first_gelu", "first_tanh", "first_relu", "gelu_norm"]
HEADS: Mapping[HeadName, Callable[[int, float], ClassifierHead]] = {
    "classifier": Classifier,
    "first_gelu": PublishedHead,
    "first_tanh": partial(PublishedHead, activation="tanh"),
    "first_relu": partial(PublishedHead, activation="relu"),
    "gelu_norm": partial(PublishedHead, normalises=True),
}
"""Name of a head in checkpoints → builder of a new head, from width and dropout."""


def head_name(head: ClassifierHead) -> HeadName:
    """Name of a head in checkpoints."""
    if isinstance(head, Classifier):
        return "classifier"
    if head.norm is not None:
        return "gelu_norm"
    names: Mapping[Activation, HeadName] = {"gelu": "first_gelu", "tanh": "first_tanh", "relu": "first_relu"}
    return names[head.activation]


def classified(classifier: ClassifierHead, hidden: Tensor, tokens: Packed, pooling: Pooling | None) -> Tensor:
    """Logits [texts] from encodings [n, d], in the classifier's own precision, never under autocast.

    `pooling`: None if there is one encoding per text already [texts, d].
    """
    with torch.autocast(hidden.device.type, enabled=False):
        pooled = hidden if pooling is None else pool(hidden, tokens, pooling)
    return classified_pooled(classifier, pooled)


def classified_pooled(classifier: ClassifierHead, pooled: Tensor) -> Tensor:
    """Logits [texts] from one encoding per text [texts, d], as in `classified`."""
    with torch.autocast(pooled.device.type, enabled=False):
        logits: Tensor = classifier(pooled.to(classifier.score.weight.dtype))
    return logits
