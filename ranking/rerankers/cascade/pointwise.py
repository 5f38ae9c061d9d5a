"""The monolithic cross-encoder (TANDA, Garg et al. 2020; MT in the Cascade Transformer's tables): baseline
and teacher.

Reads sentences, writes sentences.

It is a cascade with a single exit, after the encoder's last layer; its cuts to fewer layers are encoders with
fewer layers.
"""

from __future__ import annotations

from typing import ClassVar, Self

from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load


class Pointwise(Cascade):
    """Reranker by the classifier's score, a logit."""

    name: ClassVar[str] = "pointwise"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        precision = resources.precision()
        model, tokeniser = load(resources.folder(), cls.name, resources.model)
        return cls(model, tokeniser, device=resources.device, precision=precision)
