"""What a training file's section makes: a task of `ranking/train.py`, and what is to say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from indexing.dense import find_model
from pipelines.datasets import read_dataset, recognise
from pipelines.datasets.lines import lines
from pipelines.scores import by_question
from ranking import cascade, vector_files
from ranking.cascade import CascadeModel
from ranking.checkpoint import ListModel, WordsOf, save, words_of
from ranking.embeddings import Embeddings, Store, derive
from ranking.encoder import LayeredEncoder
from ranking.listtask import ListTask, vocabulary
from ranking.pairs import Tokeniser
from ranking.pairtask import PairTask
from ranking.reranker import Resources, SentenceEncoder
from ranking.train import Task
from ranking.words import Words
from schemas.labels import LabelledCandidate

if TYPE_CHECKING:
    from pipelines.train import Model, TrainJob, Transformer

Questions = Sequence[Sequence[LabelledCandidate]]


def task_of(job: TrainJob, learn: Questions, dev: Questions) -> tuple[Task, str]:
    """The task, and a line about its vectors or its body. Raises ValueError where the settings cannot be meant."""
    if job.model is not None:
        return _list_task(job, job.model, learn, dev)
    assert job.transformer is not None
    return _pair_task(job, job.transformer, learn)


def _list_task(job: TrainJob, model: Model, learn: Questions, dev: Questions) -> tuple[ListTask, str]:
    """The task, and what is to say of its word vectors."""
    words = vocabulary([*learn, *dev])
    for name in model.vocabulary:
        words += _words_of(job, job.path(name))
    words = Counter({word: count for word, count in words.items() if count >= model.min_count})
    file = job.path(model.embeddings)
    if file.is_file():
        embeddings, found = vector_files.read(file, words)
        told = str(found)
    else:
        embeddings = derive(words, find_model(model.embeddings), model.embeddings)
        told = f"{len(embeddings.words):,} word vectors from the pieces of {model.embeddings}"
    if model.vectors == "source" and embeddings.source is None:
        raise ValueError(f"model.vectors = 'source': {file} is a file of vectors, which must be stored with the checkpoint")
    stored: Store = "source" if model.vectors == "source" else model.store

    def keep(folder: Path, made: ListModel, embeddings: Embeddings) -> None:
        save(folder, made, embeddings, model.store, stored)

    settings = {"batch": job.train.batch, "filters": model.filters, "seed": job.train.seed}
    return ListTask(model.reranker, model.form, embeddings, learn, keep, **settings), told


def _words_of(job: TrainJob, file: Path) -> Counter[str]:
    if recognise(file) is not None:
        return vocabulary(list(by_question(read_dataset(file))))
    words, found = Words(), Counter[str]()
    for _, text in lines(file):
        found.update(words.tokens(text))
    return found


def _pair_task(job: TrainJob, given: Transformer, learn: Questions) -> tuple[PairTask, str]:
    """Begins with a transformer's body and new classifiers, or with a checkpoint of the same reranker."""
    if "batch" in job.train.model_fields_set:
        raise ValueError("train.batch counts the questions of a list model's step; a transformer's is transformer.tokens")
    own = job.path(given.encoder)
    resources = Resources(None, _no_encoder, find_model)
    if (own / "config.json").is_file() and (own / "training.json").is_file():
        model, tokeniser = cascade.load(own, given.reranker, resources)
        if given.layers is not None or given.exits not in ([], list(model.exits)):
            raise ValueError(
                f"{own} has exits {list(model.exits)}; a checkpoint's training goes on with its own: leave out layers and exits"
            )
        tokeniser = Tokeniser(tokeniser.path.parent, min(given.limit, model.encoder.shape.positions))
        words = words_of(own)
        if given.words == "source" and words is None:
            raise ValueError(f"{own} has word embeddings of its own; words = 'source' is for those of a transformer")
        words = words if given.words == "source" else None
        body = f"begun with {own.name}"
    else:
        folder = find_model(str(own) if own.is_dir() else given.encoder)
        encoder = LayeredEncoder.load(folder, given.layers)
        exits = given.exits if given.reranker == "cascade" else [encoder.shape.layers]
        if given.reranker == "pointwise" and given.exits:
            raise ValueError("transformer.exits is for the cascade; pointwise has one, after its last layer: give `layers`")
        if not exits:
            raise ValueError(
                "transformer.exits is missing: the layers after which the cascade has a classifier, e.g. [2, 3, 4, 5, 6]"
            )
        model = CascadeModel(encoder, exits)
        tokeniser = Tokeniser(folder, min(given.limit, encoder.shape.positions))
        words = WordsOf.of(given.encoder, folder) if given.words == "source" else None
        body = f"body {given.encoder}, {encoder.shape.layers} layers of {encoder.shape.width}"
    model.requires_grad_().to("cuda" if torch.cuda.is_available() else "cpu")
    model.encoder.words.requires_grad_(words is None)

    def keep(folder: Path, made: CascadeModel) -> None:
        cascade.save(folder, given.reranker, made, tokeniser, given.store, words)

    task = PairTask(
        model,
        tokeniser,
        learn,
        keep,
        tokens=given.tokens,
        classifier_rate=given.classifier_rate,
        sampling=given.sampling,
        early_epochs=given.early_epochs,
        stop=given.stop_gradient,
        seed=job.train.seed,
    )
    return task, f"{body}; {task.tokens_cut:,} tokens cut"


def _no_encoder() -> SentenceEncoder:
    raise AssertionError("a training asks for no dense encoder")
