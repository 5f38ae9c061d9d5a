"""The Multiple-Heads Student (MHS; "Efficient Ensemble Transformer for Accurate Answer Sentence Ranking"): a
shared body and k heads, each of which has learnt from a different teacher. Reads sentences, writes sentences.
Sections are the paper's.

`MultiHeadModel` is §3.3's B_b kH_h: a transformer of n = b + h layers is split; the first b are the body,
each head gets a copy of the last h and a classifier. The body runs once for all heads. The score is the mean
of their logits (Eq. 5) or, by a setting, the log-odds of the mean of their probabilities, so that it is a
logit either way.

It may have exits like the cascade, after layers of its body: they prune, and the heads decide among the rest.
The teacher of each head is in `ranking/training/distillation.py`.

Our choices. The paper's classifier is ELECTRA's: the first token, one hidden layer with GELU, two outputs;
here it gives one number z, the difference of the two, since softmax((z₁, z₀))₁ = σ(z₁ − z₀). With it two
of the paper's four configurations have the numbers of parameters that it prints, 124 and 139 million; for 169
and 199 its own architecture gives 167 and 196. Heads that begin with a checkpoint of `pointwise` or
`cascade`, or with a published sequence classifier, take over its classifier instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.cascade.cascade import Cascade, exit_settings
from answermill.ranking.rerankers.cascade.cascade_model import SENTENCE, CascadeModel
from answermill.ranking.rerankers.cascade.schedule import check
from answermill.ranking.transformer.classifier import (
    HEADS,
    Classifier,
    ClassifierHead,
    HeadName,
    classified,
    head_name,
)
from answermill.ranking.transformer.devices import dtype_of
from answermill.ranking.transformer.encoder import LayeredEncoder, serving
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers import layer_of
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    FULL,
    StoredForm,
    load_transformer,
    save_transformer,
)
from answermill.schemas.arrays import StagePrecision

Average = Literal["logits", "probabilities"]
Form = Literal["first", "first_tanh", "first_relu", "gelu_norm", "mean"]
"""Form of the heads' classifiers: ELECTRA's on the first token, or BERT's and RoBERTa's, or DistilBERT's
there; or ModernBERT's, or the cascade's, on the encoding of `Reading.pooling` (the mean)."""


_HEADS: Mapping[Form, HeadName] = {
    "first": "first_gelu",
    "first_tanh": "first_tanh",
    "first_relu": "first_relu",
    "gelu_norm": "gelu_norm",
    "mean": "classifier",
}


class StudentHead(nn.Module):
    """H_h: h layers and a classifier."""

    def __init__(self, shape: Shape, layers: int, form: Form) -> None:
        """`shape`: shape of the body, which the layers follow."""
        super().__init__()
        self.follows = shape.layers
        """Layer of the whole transformer behind which its own came."""
        self.layers = nn.ModuleList(layer_of(shape, shape.layers + n) for n in range(layers))
        self.classifier = HEADS[_HEADS[form]](shape.width, shape.dropout)

    def for_inference(self, device: torch.device | str, precision: StagePrecision) -> StudentHead:
        scorer = serving(copy.deepcopy(self), device, dtype_of(precision, device))
        scorer.classifier = copy.deepcopy(self.classifier).to(device, torch.float64)
        return scorer


class MultiHeadModel(CascadeModel):
    """B_b kH_h. `encoder` is the body of b layers; the last of `exits` is the heads', after layer n = b +
    h."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        heads: int,
        head_layers: int,
        exits: Sequence[int] = (),
        *,
        form: Form = "first",
        average: Average = "logits",
    ) -> None:
        """`exits`: layers of the body after which a classifier prunes. The heads are new, with random
        weights; `split` makes them from a transformer's last layers. Raises ValueError without heads, or if
        an exit lies above the body."""
        nn.Module.__init__(self)
        shape = encoder.shape
        if heads < 1 or head_layers < 1:
            raise ValueError(
                f"{heads} heads of {head_layers} layers; give at least one head of at least one layer"
            )
        if exits and max(exits) > shape.layers:
            raise ValueError(
                f"exits = {list(exits)}: the heads begin after layer {shape.layers}, no exit can come after "
                "it"
            )

        self.exits = (*exits, shape.layers + head_layers)
        check(self.exits, [0.0] * len(exits))
        self.form, self.average = form, average
        self.reading = SENTENCE
        self.encoder = encoder
        self.classifiers = nn.ModuleList(Classifier(shape.width, shape.dropout) for _ in exits)
        self.heads = nn.ModuleList(StudentHead(shape, head_layers, form) for _ in range(heads))

    def body(self) -> LayeredEncoder:
        """Raises ValueError: no other model can begin with a part of a transformer."""
        raise ValueError("whose last layers are its heads'")

    @property
    def head_layers(self) -> int:
        """h"""
        return self.depth - self.encoder.shape.layers

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        body = self.encoder.shape.layers
        return self.encoder.run(hidden, tokens, min(first, body), min(last, body))

    def layers_between(self, first: int, last: int) -> int:
        if last < self.depth:
            return last - first
        return self.encoder.shape.layers - first + len(self.heads) * self.head_layers

    def logits(self, hidden: Tensor, tokens: Packed, exit: int) -> list[Tensor]:
        """Logits at an exit: at the last one H_i(B(x)) of each head. If a head reads the first token, its
        last layer computes no other."""
        if exit < len(self.exits) - 1:
            return super().logits(hidden, tokens, exit)
        first_only, outputs = self.form.startswith("first") or self.reading.pooling == "first", []
        for head in cast(Sequence[StudentHead], self.heads):
            encoded = self.encoder.run_through(head.layers, hidden, tokens, first_only)
            encoded = self.encoder.normalised(encoded)
            outputs.append(
                classified(head.classifier, encoded, tokens, None if first_only else self.reading.pooling)
            )
        return outputs

    def score(self, logits: Sequence[Tensor]) -> Tensor:
        return averaged(torch.stack(list(logits), 1), self.average)

    def classifier_parameters(self) -> Iterator[nn.Parameter]:
        yield from self.classifiers.parameters()
        for head in cast(Sequence[StudentHead], self.heads):
            yield from head.classifier.parameters()

    def for_inference(self, device: torch.device | str, precision: StagePrecision = "auto") -> Self:
        heads = nn.ModuleList(
            head.for_inference(device, precision) for head in cast(Sequence[StudentHead], self.heads)
        )
        return super(MultiHeadModel, self._with_heads(heads)).for_inference(device, precision)

    def only(self, head: int) -> Self:
        """The same model with one of its heads, counted from 0; nothing is copied."""
        return self._with_heads(self.heads[head : head + 1])

    def _with_heads(self, heads: nn.ModuleList) -> Self:
        student = copy.copy(self)
        student._modules = {**self._modules, "heads": heads}
        return student

    def with_exits(self, exits: Sequence[int]) -> MultiHeadModel:
        """The same body and heads behind these exits, whose classifiers are new."""
        student = MultiHeadModel(
            self.encoder, len(self.heads), self.head_layers, exits, form=self.form, average=self.average
        )
        student.heads, student.reading = self.heads, self.reading
        return student


def averaged(logits: Tensor, average: Average) -> Tensor:
    """Score [texts] from the heads' logits [texts, k]: their mean (Eq. 5), or the log-odds of the mean of
    σ(z_i)."""
    if average == "logits" or logits.shape[1] == 1:
        return logits.mean(1)
    return F.logsigmoid(logits).logsumexp(1) - F.logsigmoid(-logits).logsumexp(1)


def split(
    whole: LayeredEncoder,
    heads: int,
    head_layers: int,
    exits: Sequence[int] = (),
    average: Average = "logits",
) -> MultiHeadModel:
    """Split a transformer (§3.3): the first b = n − h layers are the body, copies of the last h each head's;
    the classifiers are new.

    Raises ValueError if there are not more than h layers, and like `MultiHeadModel`.
    """
    body = whole.shape.layers - head_layers
    if body < 1:
        raise ValueError(
            f"heads of {head_layers} layers, but the encoder has {whole.shape.layers}: b + h cannot be "
            "more; leave the body at "
            f"least one, so give head_layers of at most {whole.shape.layers - 1}"
        )
    student = MultiHeadModel(whole.cut(body), heads, head_layers, exits, average=average)
    for head in cast(Sequence[StudentHead], student.heads):
        head.layers = whole.copy_layers(body, whole.shape.layers)
    return student


def split_model(
    whole: CascadeModel, heads: int, head_layers: int, exits: Sequence[int] = (), average: Average = "logits"
) -> MultiHeadModel:
    """Split a monolithic model or a cascade, see `split`: each head begins with a copy of its last
    classifier, and exits that both have keep theirs. Without `exits` the cascade's that lie in the body are
    taken."""
    own = whole.exits[:-1]
    if not exits:
        exits = [layer for layer in own if layer <= whole.depth - head_layers]
    student = split(whole.encoder, heads, head_layers, exits, average)
    last = cast(ClassifierHead, whole.classifiers[-1])
    student.form = next(form for form, name in _HEADS.items() if name == head_name(last))
    student.reading = whole.reading
    for head in cast(Sequence[StudentHead], student.heads):
        head.classifier = copy.deepcopy(last)

    for n, layer in enumerate(exits):
        if layer in own:
            student.classifiers[n] = whole.classifiers[own.index(layer)]

    return student


class MultiHead(Cascade):
    """Reranker by the mean over the heads, a logit; with `drop`, candidates dropped at an exit before them
    are not in the list."""

    name: ClassVar[str] = "multihead"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        precision = resources.precision()
        model, tokeniser = load(resources.folder(), resources.model)
        return cls(model, tokeniser, *exit_settings(resources, len(model.exits) - 1), precision=precision)


def save(
    folder: Path,
    model: MultiHeadModel,
    tokeniser: Tokeniser,
    stored: StoredForm = FULL,
) -> None:
    """Write the model folder. See `save_transformer`."""
    details = {"heads": len(model.heads), "head_layers": model.head_layers, "exits": model.exits[:-1]}
    details |= {"form": model.form, "average": model.average, **model.reading.details(SENTENCE)}
    save_transformer(folder, MultiHead.name, details, model, tokeniser, stored=stored)


def load(folder: Path, source: Callable[[str], Path] = Path) -> tuple[MultiHeadModel, Tokeniser]:
    """Model and tokeniser that `save` wrote. Raises ValueError if the folder is incomplete, broken, or of
    another format or model."""
    return load_transformer(folder, MultiHead.name, _build, source)


def _build(config: Mapping[str, Any], encoder: LayeredEncoder) -> MultiHeadModel:
    shape = config["heads"], config["head_layers"], config["exits"]
    model = MultiHeadModel(encoder, *shape, form=config["form"], average=config["average"])
    model.reading = Reading.of(config, SENTENCE)
    return model
