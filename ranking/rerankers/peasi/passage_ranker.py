"""Head of PR (§2.1): the logit of p(q, p) from the encoding of a passage, in PR ⊕ EASI (§2.3) with a vector
of EASI.

Two classes' softmax is one number's sigmoid: W has one row. Our choice: PR alone, of which §2.1 says no more
than "a fully connected layer", has §2.3's tanh too, so that PR ⊕ EASI can begin with its W. Not the paper's,
and only if a checkpoint names it: the head is that of a cross-encoder, C, so that PR can begin with a trained
ranker of sentences.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from answermill.ranking.transformer.classifier import ClassifierHead, classified_pooled


class LinearRanker(nn.Linear):
    """W · tanh(E(q, p)) + B; in PR ⊕ EASI W · tanh([E(q, p); E(q, c1 … ck)]) + B."""

    stored: ClassVar[str] = "passage."
    """Prefix of its weights' names in checkpoints."""

    def __init__(self, width: int, joint: bool) -> None:
        """`joint`: true for PR ⊕ EASI, with W [1, 2 d]; else W [1, d]."""
        super().__init__(2 * width if joint else width, 1)

    def logits(self, passages: Tensor, beside: Tensor | None = None) -> Tensor:
        """Logits [passages] from one vector per passage [passages, d], for PR ⊕ EASI two; in its own
        precision, never under autocast."""
        read = passages if beside is None else torch.cat([passages, beside], 1)
        with torch.autocast(read.device.type, enabled=False):
            logits: Tensor = self(read.to(self.weight.dtype).tanh())
        return logits.squeeze(1)

    def take(self, other: PassageRanker) -> None:
        """Take over another's W; the part that reads EASI's vector is 0 if the other has none. A classifier
        is not taken over."""
        if not isinstance(other, LinearRanker):
            return
        with torch.no_grad():
            self.weight.zero_()[:, : other.in_features] = other.weight[:, : self.in_features]
            self.bias.copy_(other.bias)


class ClassifierRanker(nn.Module):
    """C(E(q, p)), or C of another encoding by `Reading.pooling`; in PR ⊕ EASI C(E(q, p)) + V · tanh(E(q, c1 …
    ck))."""

    stored: ClassVar[str] = ""

    def __init__(self, classifier: ClassifierHead, width: int, joint: bool) -> None:
        """`joint`: true for PR ⊕ EASI, with V [1, d]."""
        super().__init__()
        self.classifier = classifier
        self.beside = nn.Linear(width, 1, bias=False) if joint else None

    def logits(self, passages: Tensor, beside: Tensor | None = None) -> Tensor:
        """Logits [passages]; arguments as in `LinearRanker.logits`."""
        logits = classified_pooled(self.classifier, passages)
        if beside is not None and self.beside is not None:
            with torch.autocast(beside.device.type, enabled=False):
                logits = logits + self.beside(beside.to(self.beside.weight.dtype).tanh()).squeeze(1)
        return logits

    def take(self, other: PassageRanker) -> None:
        """Take over another's C, and V if it has one. A W is not taken over."""
        if isinstance(other, ClassifierRanker):
            self.take_classifier(other.classifier)
            if self.beside is not None and other.beside is not None:
                self.beside.load_state_dict(other.beside.state_dict())

    def take_classifier(self, classifier: ClassifierHead) -> None:
        """Begin with a cross-encoder's classifier; V is 0."""
        self.classifier.load_state_dict(classifier.state_dict())
        if self.beside is not None:
            nn.init.zeros_(self.beside.weight)


PassageRanker: TypeAlias = LinearRanker | ClassifierRanker
