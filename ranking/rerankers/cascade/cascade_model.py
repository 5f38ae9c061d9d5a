"""The model of the Cascade Transformer (Soldaini & Moschitti, ACL 2020): one encoder, a classifier at several
depths.

`CascadeModel` is §4.3: partial classifiers C_ρ(i) over the mean of a depth's encodings. With a single exit it
is the monolithic cross-encoder, as §4.1 has it (TANDA) if it reads the first token. Inference is in
`cascade.py`. Sections and equations are the paper's.

Our choices. All encodings count in the mean, as in the text of §4.3; its formula leaves out h_0. Settings
choose the mean, or the first token's encoding instead, and the parts read beside the sentence
(`ranking/context.py`). A classifier has two hidden layers with tanh and one that gives the score: §5.2's
"3-layers feed-forward modules". It gives one number, and its cross-entropy is the binary one. At inference it
runs in float64: a score does not depend on the rest of the batch, and a survivor has exactly the score that
it would have had without any dropping.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from answermill.ranking.context import Reading
from answermill.ranking.rerankers.cascade.schedule import check
from answermill.ranking.transformer.classifier import (
    HEADS,
    Classifier,
    ClassifierHead,
    HeadName,
    PublishedHead,
    classified,
    head_name,
)
from answermill.ranking.transformer.devices import dtype_of
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    FULL,
    StoredForm,
    load_transformer,
    save_transformer,
)
from answermill.schemas.arrays import StagePrecision

SENTENCE = Reading()
"""Default reading of a cross-encoder: the sentence alone, by the mean of all tokens."""


class CascadeModel(nn.Module):
    """An encoder and its partial classifiers, one after layer ρ(i) for each of `exits`; the last one after
    its last layer."""

    def __init__(self, encoder: LayeredEncoder, exits: Sequence[int], head: HeadName = "classifier") -> None:
        """`head`: head of the last exit. Raises ValueError if the exits do not increase or do not end at the
        encoder's depth."""
        super().__init__()
        self.exits = tuple(exits)
        check(self.exits, [0.0] * (len(self.exits) - 1))
        if self.exits[-1] != encoder.shape.layers:
            raise ValueError(
                f"the last exit is after layer {self.exits[-1]}, but the encoder has {encoder.shape.layers} "
                "layers"
            )
        self.encoder = encoder
        self.reading = SENTENCE
        size = encoder.shape.width, encoder.shape.dropout
        self.classifiers = nn.ModuleList([*(Classifier(*size) for _ in self.exits[:-1]), HEADS[head](*size)])

    def body(self) -> LayeredEncoder:
        """The whole transformer, for another model to begin with."""
        return self.encoder

    @property
    def depth(self) -> int:
        return self.exits[-1]

    def forward(self, tokens: Packed, exit: int, stop: bool = False) -> Tensor:
        """Scores [texts] at an exit, counted from 0. `stop`: no gradient below the exit before (an ablation
        of §4.3.1)."""
        return self.classify(self._encoded(tokens, exit, stop), tokens, exit)

    def outputs(self, tokens: Packed, exit: int, stop: bool = False) -> list[Tensor]:
        """Logits of each classifier at an exit, one per text [texts]; arguments as in `forward`."""
        return self.logits(self._encoded(tokens, exit, stop), tokens, exit)

    def all_outputs(self, tokens: Packed, stop: bool = False) -> list[list[Tensor]]:
        """`outputs` of each exit, from one pass through the layers."""
        hidden, before, outputs = self.encoder.embed(tokens), 0, []
        for exit, layer in enumerate(self.exits):
            hidden = self.run(hidden.detach() if stop and exit else hidden, tokens, before, layer)
            outputs.append(self.logits(hidden, tokens, exit))
            before = layer
        return outputs

    def _encoded(self, tokens: Packed, exit: int, stop: bool) -> Tensor:
        before = self.exits[exit - 1] if stop and exit else 0
        with torch.set_grad_enabled(torch.is_grad_enabled() and not before):
            hidden = self.encoder.embed(tokens)
            hidden = self.encoder.run(hidden, tokens, 0, before)
        return self.run(hidden, tokens, before, self.exits[exit])

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        """Encodings [n, d] that the classifiers of depth `last` read, from h of depth `first`."""
        return self.encoder.run(hidden, tokens, first, last)

    def layers_between(self, first: int, last: int) -> int:
        """Number of layers computed from one exit's scores to another's."""
        return last - first

    def logits(self, hidden: Tensor, tokens: Packed, exit: int) -> list[Tensor]:
        """Logits of each classifier at an exit, one per text [texts], from the encodings of `run` [n, d]."""
        classifier, hidden = cast(ClassifierHead, self.classifiers[exit]), self.encoder.normalised(hidden)
        return [classified(classifier, hidden, tokens, self.reading.pooling)]

    def classify(self, hidden: Tensor, tokens: Packed, exit: int) -> Tensor:
        """Scores [texts] at an exit, from the encodings of `run` [n, d]."""
        return self.score(self.logits(hidden, tokens, exit))

    def score(self, logits: Sequence[Tensor]) -> Tensor:
        """Scores [texts] from the logits of an exit's classifiers."""
        (only,) = logits
        return only

    def classifier_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of all classifiers."""
        return self.classifiers.parameters()

    def for_inference(self, device: torch.device | str, precision: StagePrecision = "auto") -> Self:
        """Copy for scoring: layers in the given precision, the classifiers in float64. Raises ValueError as
        `LayeredEncoder.for_inference`."""
        scorer = copy.copy(self)
        scorer._modules = dict(self._modules)
        scorer.encoder = self.encoder.for_inference(device, dtype_of(precision, device))
        scorer.classifiers = copy.deepcopy(self.classifiers).to(device, torch.float64)
        return scorer.requires_grad_(False).eval()


def published(encoder: LayeredEncoder, head: PublishedHead) -> CascadeModel:
    """Monolithic model of a published sequence classifier."""
    model = CascadeModel(encoder, [encoder.shape.layers])
    model.classifiers[-1], model.reading = head, Reading(pooling=head.pooling)
    return model


def grown(monolithic: CascadeModel, exits: Sequence[int]) -> CascadeModel:
    """A cascade that begins with a monolithic model's body and classifier; the other classifiers are new."""
    cascade = CascadeModel(monolithic.encoder, exits)
    cascade.classifiers[-1] = monolithic.classifiers[-1]
    cascade.reading = monolithic.reading
    return cascade


def save(
    folder: Path,
    name: str,
    model: CascadeModel,
    tokeniser: Tokeniser,
    stored: StoredForm = FULL,
) -> None:
    """Write the model folder of `name`: 'cascade', or 'pointwise' with a single exit. See
    `save_transformer`."""
    head = head_name(cast(ClassifierHead, model.classifiers[-1]))
    details = {"exits": model.exits, **model.reading.details(SENTENCE)} | (
        {} if head == "classifier" else {"head": head}
    )
    save_transformer(folder, name, details, model, tokeniser, stored=stored)


def load_pointwise(folder: Path, source: Callable[[str], Path] = Path) -> tuple[CascadeModel, Tokeniser]:
    """Load a checkpoint of `pointwise`; see `load`."""
    return load(folder, "pointwise", source)


def load_cascade(folder: Path, source: Callable[[str], Path] = Path) -> tuple[CascadeModel, Tokeniser]:
    """Load a checkpoint of `cascade`; see `load`."""
    return load(folder, "cascade", source)


def load(folder: Path, name: str, source: Callable[[str], Path] = Path) -> tuple[CascadeModel, Tokeniser]:
    """Model and tokeniser that `save` wrote. Raises ValueError if the folder is incomplete, broken, or of
    another format or model."""
    return load_transformer(folder, name, _build, source)


def _build(config: Mapping[str, Any], encoder: LayeredEncoder) -> CascadeModel:
    model = CascadeModel(encoder, config["exits"], config.get("head", "classifier"))
    model.reading = Reading.of(config, SENTENCE)
    return model
