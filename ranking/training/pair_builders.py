"""Builders of the trainings of cross-encoders: `pointwise`, `cascade` and `multihead`.

| trained | begins with a transformer and new classifiers, or with a checkpoint of |
|---|---|
| pointwise | pointwise |
| cascade | cascade; pointwise, whose body and classifier it takes over |
| multihead | multihead, to which exits may be added once; pointwise or cascade, whose last layers each head copies |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade import alpha_per_exit
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, grown
from answermill.ranking.rerankers.cascade.pair_settings import (
    CascadeSettings,
    ExitSettings,
    PairSettings,
    PointwiseSettings,
)
from answermill.ranking.rerankers.cascade.schedule import check
from answermill.ranking.rerankers.multihead import multihead
from answermill.ranking.rerankers.multihead.multihead import MultiHeadModel, split, split_model
from answermill.ranking.rerankers.multihead.student_settings import StudentSettings
from answermill.ranking.training.beginning import Start, begin, prepare, source_words, tokeniser_of
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.training.distillation import LabelLoss
from answermill.ranking.training.inputs import Built, TrainingInputs, missing
from answermill.ranking.training.loop import Dev
from answermill.ranking.transformer.classifier import PublishedHead
from answermill.ranking.transformer.transformer_checkpoint import StoredForm

Settings = TypeVar("Settings", bound=PairSettings)
Model = TypeVar("Model", bound=CascadeModel)


def build_pointwise(inputs: TrainingInputs[PointwiseSettings]) -> Built:
    """Build a training of `pointwise`. Raises ValueError if the settings do not fit each other or the
    starting point."""
    start = _begin(inputs)
    model = start.model_of(CascadeModel, ["pointwise"], "pointwise")
    model = model or CascadeModel(start.encoder, [start.encoder.shape.layers])
    return _built(inputs, start, model, partial(cascade_model.save, name="pointwise"))


def build_cascade(inputs: TrainingInputs[CascadeSettings]) -> Built:
    """Build a training of `cascade`. Raises ValueError if the settings do not fit each other or the starting
    point."""
    start, exits = _begin(inputs), inputs.settings.exits
    if start.format != "cascade" and not exits:
        raise ValueError(
            "transformer.exits is missing: the layers after which the cascade has a classifier, e.g. [2, 3, "
            "4, 5, 6]"
        )

    model = start.model_of(CascadeModel, ["cascade", "pointwise"], "cascade")
    if model is None:
        model = CascadeModel(start.encoder, exits)
    elif start.format == "pointwise":
        model = grown(model, exits)
    elif exits and exits != list(model.exits):
        raise ValueError(
            f"{start.name} is a checkpoint with exits {list(model.exits)}; leave out transformer.layers and "
            "exits"
        )

    return _built(inputs, start, model, partial(cascade_model.save, name="cascade"), exits=inputs.settings)


def build_multihead(inputs: TrainingInputs[StudentSettings]) -> Built:
    """Build a training of `multihead`. Raises ValueError if the settings do not fit each other or the
    starting point."""
    start, settings = _begin(inputs), inputs.settings
    heads = settings.heads or (inputs.distillation.teachers if inputs.distillation.strategy == "mhs" else 3)
    form = heads, settings.head_layers or 1, settings.exits, settings.average or "logits"

    if isinstance(start.model, MultiHeadModel):
        model = _continued(settings, start, start.model)
    elif whole := start.model_of(CascadeModel, ["pointwise", "cascade"], "multihead"):
        model = split_model(whole, *form)
    else:
        model = split(start.encoder, *form)

    if settings.pooling not in (None, "first") and model.form != "mean" and len(model.exits) == 1:
        raise ValueError(
            f"transformer.pooling = {settings.pooling!r}: heads that begin with a transformer read its "
            "first token; leave it "
            "out, or begin with a checkpoint of pointwise or cascade"
        )

    return _built(inputs, start, model, multihead.save, exits=settings, heads=len(model.heads))


def _continued(settings: StudentSettings, start: Start, model: MultiHeadModel) -> MultiHeadModel:
    """Student of a checkpoint, with new exits if it has none and the settings give some."""
    known = {"heads": len(model.heads), "head_layers": model.head_layers, "average": model.average}
    for key, value in known.items():
        if getattr(settings, key) not in (None, value):
            raise ValueError(
                f"{start.name} is a checkpoint with {key} {value!r}; leave out transformer.{key}"
            )
    exits = model.exits[:-1]
    if settings.exits and exits not in ((), tuple(settings.exits)):
        raise ValueError(
            f"{start.name} is a checkpoint with exits {list(exits)}; leave out transformer.exits"
        )
    return model.with_exits(settings.exits) if settings.exits and not exits else model


def _begin(inputs: TrainingInputs[Settings]) -> Start:
    inputs.check_no_batch("transformer")
    layers = inputs.settings.layers
    start = begin(inputs, inputs.settings.encoder, layers)
    if layers is not None and start.model is not None:
        what = (
            f"with exits {list(start.model.exits)}"
            if isinstance(start.model, CascadeModel)
            else f"of {start.format}"
        )
        raise ValueError(f"{start.name} is a checkpoint {what}; leave out transformer.layers")
    return start


def _built(
    inputs: TrainingInputs[Settings],
    start: Start,
    model: Model,
    write: Callable[..., None],
    *,
    exits: ExitSettings | None = None,
    heads: int = 1,
) -> Built:
    """Training of a model, which `write` saves. `exits`: settings of a model that has some."""
    settings = inputs.settings
    inputs.distillation.check(heads)
    words, tokeniser = source_words(settings, start), tokeniser_of(settings, start)
    pooling, model.reading = model.reading.pooling, settings.reading(model.reading)
    last = None if isinstance(model, MultiHeadModel) else model.classifiers[-1]
    if isinstance(last, PublishedHead) and model.reading.pooling != pooling:
        raise ValueError(
            f"transformer.pooling = {model.reading.pooling!r}: the head of a published classifier reads "
            f"{'the first token' if pooling == 'first' else 'the mean of all tokens'}; leave it out"
        )

    options = PairOptions(
        tokens=settings.tokens,
        context_dropout=settings.context_dropout or 0.0,
        # A checkpoint's own context is counted where data lack it.
        needs_context=settings.context is not None,
        classifier_rate=settings.classifier_rate,
        distillation=inputs.distillation,
        by_labels=LabelLoss(settings.loss, settings.bce_weight),
        negatives=settings.negatives,
        seed=inputs.recipe.seed,
    )
    if exits is not None:
        drops = alpha_per_exit(exits.drop, len(model.exits) - 1)
        if drops:
            check(model.exits, drops)
        options = replace(
            options,
            sampling=exits.sampling,
            early_epochs=exits.early_epochs,
            self_distillation=exits.self_distillation,
            stop_gradient=exits.stop_gradient,
            drops=tuple(drops),
        )

    prepare(model, inputs.device, words is None, settings.recompute)

    def save(folder: Path, trained: CascadeModel) -> None:
        write(folder, model=trained, tokeniser=tokeniser, stored=StoredForm(settings.store, words))

    task = PairTask(model, tokeniser, inputs.learn, save, options, teachers=inputs.teachers)
    left_out = task.questions_left_out
    without = f"; {left_out:,} questions without a wrong candidate left out" if left_out else ""
    description = f"{start.description}; {task.tokens_cut:,} tokens cut{missing(task.missing)}{without}"
    return Built(task, Dev(inputs.dev), description, task.tokens)
