"""Start of a training of PEASI: the checkpoints that it begins with, the model assembled from them, and the
task."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.extractor import ExtractorName
from answermill.ranking.rerankers.peasi.passage_ranker import ClassifierRanker
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi_model import PassageHead, PeasiModel
from answermill.ranking.rerankers.peasi.span import Span
from answermill.ranking.training.beginning import (
    Start,
    begin,
    check_beside,
    prepare,
    source_words,
    tokeniser_of,
)
from answermill.ranking.training.inputs import Built, TrainingInputs, missing
from answermill.ranking.training.passages.passage_data import PassageData
from answermill.ranking.training.passages.passage_task import PassageOptions, PassageTask, dev_lists
from answermill.ranking.transformer.classifier import Classifier, ClassifierHead, head_name
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.transformer_checkpoint import StoredForm


class StartingPoints(NamedTuple):
    """Starting points of PR and EASI; one and the same unless EASI begins with `easi`."""

    pr: Start
    easi: Start


def build(inputs: TrainingInputs[PassageSettings]) -> Built:
    """Build a training that begins with a transformer, with the transformer of a checkpoint, or with a
    checkpoint of `peasi`, whose heads it takes over too. EASI, if it has a transformer to itself, begins with
    `easi`. PR also takes over the classifier of a cross-encoder whose pooling the settings name, and the head
    of a published one. Raises ValueError if the settings do not fit each other or the starting points."""
    settings = inputs.settings
    starts = starting_points(settings, inputs)
    model = assembled(settings, starts)
    words, tokeniser = source_words(settings, starts.pr), tokeniser_of(settings, starts.pr)
    prepare(model, inputs.device, words is None, settings.recompute)

    def save(folder: Path, trained: PeasiModel) -> None:
        peasi_model.save(folder, trained, tokeniser, StoredForm(settings.store, words))

    data = PassageData.of(inputs.learn, model, tokeniser)
    options = PassageOptions(
        tokens=settings.tokens,
        classifier_rate=settings.classifier_rate,
        context_dropout=settings.context_dropout or 0.0,
        seed=inputs.recipe.seed,
    )
    task = PassageTask(data, model, inputs.dev, save, options)
    description = f"{described(starts, model)}; {data.tokens_cut:,} tokens cut{missing(data.missing)}"

    return Built(task, dev_lists(model, inputs.dev), description, task.tokens)


def starting_points(settings: PassageSettings, inputs: TrainingInputs[PassageSettings]) -> StartingPoints:
    """The transformers or checkpoints that the settings name. Raises ValueError if one cannot be a starting
    point."""
    start = begin(inputs, settings.encoder)
    two = settings.easi and settings.variant in ("mtl1", "joint")
    return StartingPoints(start, begin(inputs, settings.easi) if two else start)


def assembled(settings: PassageSettings, starts: StartingPoints) -> PeasiModel:
    """Model before its first step. Raises ValueError if the settings do not fit each other or the
    starting points."""
    body = _easi_body(starts.pr) if settings.variant == "easi" else starts.pr.body()
    extractor = _extractor(settings, starts.easi)
    slots = 1 if extractor == "span" else settings.slots
    model = PeasiModel(body, settings.variant, slots, _head(settings, starts.pr), extractor)

    # EASI's transformer, where it has one to itself.
    if model.easi_encoder is not None:
        check_beside(settings, starts.pr, starts.easi)
        model.easi_encoder.load_state_dict(_easi_body(starts.easi).state_dict())
    elif settings.easi:
        raise ValueError(
            f"peasi.easi = {settings.easi!r}, but variant {settings.variant!r} has one transformer, "
            "peasi.encoder"
        )

    # PR's head and its reading.
    if isinstance(starts.pr.model, PeasiModel):
        model.take_passage_head(starts.pr.model)
        model.reading = starts.pr.model.reading
    elif isinstance(model.pr, ClassifierRanker) and (cross_encoder := _cross_encoder(starts.pr)):
        model.pr.take_classifier(cast(ClassifierHead, cross_encoder.classifiers[-1]))

    if model.pr is not None or (extractor == "span" and not settings.pooling):
        model.reading = settings.reading(model.reading)
    elif settings.context or settings.pooling or settings.context_dropout:
        raise ValueError(
            "peasi.context, pooling and context_dropout are PR's, and variant 'easi' has none; leave them out"
        )

    # EASI's head.
    if isinstance(starts.easi.model, PeasiModel):
        model.take_sentence_head(starts.easi.model)
    if isinstance(model.easi, Span) and (classifier := _mean_classifier(starts.easi)):
        model.easi.take(classifier)
    return model


def described(starts: StartingPoints, model: PeasiModel) -> str:
    """Starting points of the model, as a line for display."""
    start, second = starts
    origin = start.description if second is start else f"{start.description}, EASI {second.description}"
    classifiers = {
        "PR": isinstance(model.pr, ClassifierRanker),
        "EASI": isinstance(model.easi, Span) and _mean_classifier(second) is not None,
    }
    parts = [part for part, taken in classifiers.items() if taken]
    return f"{origin}, {' and '.join(parts)} with its classifier" if parts else origin


def _head(settings: PassageSettings, start: Start) -> PassageHead:
    """Head of PR: as in a checkpoint of `peasi`, or that of a cross-encoder whose pooling the settings name
    or that was published."""
    if isinstance(start.model, PeasiModel):
        return start.model.head
    cross_encoder = _cross_encoder(start)
    head = head_name(cast(ClassifierHead, cross_encoder.classifiers[-1])) if cross_encoder else "classifier"
    pooling = settings.pooling or (None if head == "classifier" else "first")
    return head if cross_encoder and cross_encoder.reading.pooling == pooling else "linear"


def _extractor(settings: PassageSettings, start: Start) -> ExtractorName:
    """Extractor of EASI: as in a checkpoint of `peasi` that has one, or as the settings name it. Raises
    ValueError if these differ, or a setting has no effect."""
    known = (
        start.model.easi.name
        if isinstance(start.model, PeasiModel) and start.model.easi is not None
        else None
    )
    if settings.extractor and settings.variant == "pr":
        raise ValueError("peasi.extractor is EASI's, and variant 'pr' has none; leave it out")
    if settings.extractor and known not in (None, settings.extractor):
        raise ValueError(f"{start.name} is a checkpoint with extractor {known!r}; leave out peasi.extractor")

    extractor = known or settings.extractor or "slots"
    if extractor == "span" and "slots" in settings.model_fields_set:
        raise ValueError(
            "peasi.slots is of extractor 'slots'; 'span' reads a passage's sentences all; leave it out"
        )

    return extractor


def _cross_encoder(start: Start) -> CascadeModel | None:
    """Model that ranks sentences by one classifier on its whole transformer; None if the training does not
    begin with one."""
    model = start.model if start.format in ("pointwise", "cascade") else None
    return model if isinstance(model, CascadeModel) else None


def _mean_classifier(start: Start) -> Classifier | None:
    """Classifier of such a model; None if it reads the first token, since EASI's vectors are means."""
    cross_encoder = _cross_encoder(start)
    if cross_encoder is None or cross_encoder.reading.pooling == "first":
        return None
    return cast(Classifier, cross_encoder.classifiers[-1])


def _easi_body(start: Start) -> LayeredEncoder:
    """Starting point of EASI: its own transformer in a checkpoint of `peasi`, else the whole one."""
    own = start.model.easi_encoder if isinstance(start.model, PeasiModel) else None
    return own or start.body()
