"""What a training file's section makes: a task of `ranking/training/loop.py`, and what is to say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from indexing.shards.dense import find_model
from pipelines.config.training_file import Body, Hashing, Model, Peasi, TrainJob, Transformer
from pipelines.datasets import by_question, read_dataset, recognise
from pipelines.datasets.lines import lines
from ranking.cascade import cascade_model
from ranking.cascade.cascade import alpha_per_exit
from ranking.cascade.cascade_model import CascadeModel, grown
from ranking.cascade.schedule import check
from ranking.checkpoint import kind_of
from ranking.cosinet.list_checkpoint import ListModel, save_list_model
from ranking.hashing import hashing_model
from ranking.hashing.hashing_model import HashingModel
from ranking.multihead import multihead
from ranking.multihead.multihead import MultiHeadModel, split, split_model
from ranking.peasi import peasi_model
from ranking.peasi.peasi_model import PeasiModel
from ranking.training.cross_encoders import PairOptions, PairTask
from ranking.training.distillation import NO_TEACHER, Distillation
from ranking.training.list_models import ListTask, vocabulary
from ranking.training.loop import Dev, Task
from ranking.training.passages import PassageTask, dev_lists
from ranking.training.triplets import HashTask, TripletOptions
from ranking.transformer.encoder import LayeredEncoder
from ranking.transformer.packing import Tokeniser
from ranking.transformer.transformer_checkpoint import WordSource, word_source
from ranking.word_vectors import vector_files
from ranking.word_vectors.embeddings import Embeddings, Store, derive
from ranking.word_vectors.words import Words
from schemas.labels import LabelledCandidate, LabelledPassage

Questions = Sequence[Sequence[LabelledCandidate]]
Passages = Sequence[Sequence[LabelledPassage]]
Logits = npt.NDArray[np.float32]


def task_of(job: TrainJob, learn: Sequence[Any], dev: Sequence[Any], teachers: Sequence[Logits] = ()) -> tuple[Task, Dev, str]:
    """The task, what it is held against, and a line about its vectors or its body. `teachers`: of each question to learn from.

    Raises ValueError where the settings cannot be meant.
    """
    if job.peasi is not None:
        return _passage_task(job, job.peasi, learn, dev)
    if job.hashing is not None:
        return _hash_task(job, job.hashing, learn, dev)
    if job.model is not None:
        return _list_task(job, job.model, learn, dev)
    assert job.transformer is not None
    return _pair_task(job, job.transformer, learn, dev, teachers)


def _list_task(job: TrainJob, model: Model, learn: Questions, dev: Questions) -> tuple[ListTask, Dev, str]:
    words = vocabulary([*learn, *dev])
    for name in model.vocabulary:
        words += _word_source(job, job.path(name))
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
        save_list_model(folder, made, embeddings, model.store, stored)

    settings = {"batch": job.train.batch, "filters": model.filters, "seed": job.train.seed}
    return ListTask(model.reranker, model.form, embeddings, learn, keep, **settings), Dev(dev), told


def _word_source(job: TrainJob, file: Path) -> Counter[str]:
    if recognise(file) is not None:
        return vocabulary(list(by_question(read_dataset(file))))
    words, found = Words(), Counter[str]()
    for _, text in lines(file):
        found.update(words.tokens(text))
    return found


def _pair_task(
    job: TrainJob, given: Transformer, learn: Questions, dev: Questions, teachers: Sequence[Logits]
) -> tuple[PairTask, Dev, str]:
    """Begins with a transformer's body and new classifiers; with a checkpoint of the same reranker; a cascade also with one of
    `pointwise`, whose body and classifier it takes over; a multiple-heads student with either of them."""
    _check_batch(job, "transformer")
    start = _start(job, given.encoder, given.layers)
    if given.layers is not None and start.model is not None:
        told = f"with exits {list(start.model.exits)}" if isinstance(start.model, CascadeModel) else f"of {start.kind}"
        raise ValueError(f"{start.name} is a checkpoint {told}; leave out transformer.layers")
    distillation = _distillation(job)
    if given.reranker == "multihead":
        model: CascadeModel = _student(given, start, distillation)
    elif (given.heads, given.head_layers, given.average) != (None, None, None):
        raise ValueError(f"transformer.heads, head_layers and average are for multihead, not for {given.reranker}")
    else:
        model = _cascade(given, start)
    distillation.check(len(model.heads) if isinstance(model, MultiHeadModel) else 1)
    drops = alpha_per_exit(given.drop, len(model.exits) - 1)
    if drops:
        check(model.exits, drops)
    tokeniser, words = _stands_on(given, start, model)

    def keep(folder: Path, made: CascadeModel) -> None:
        if isinstance(made, MultiHeadModel):
            multihead.save(folder, made, tokeniser, given.store, words)
        else:
            cascade_model.save(folder, given.reranker, made, tokeniser, given.store, words)

    task = PairTask(
        model,
        tokeniser,
        learn,
        keep,
        PairOptions(
            tokens=given.tokens,
            classifier_rate=given.classifier_rate,
            sampling=given.sampling,
            early_epochs=given.early_epochs,
            stop_gradient=given.stop_gradient,
            drops=tuple(drops),
            distillation=distillation,
            seed=job.train.seed,
        ),
        teachers,
    )
    return task, Dev(dev), f"{start.told}; {task.tokens_cut:,} tokens cut"


def _cascade(given: Transformer, start: _Start) -> CascadeModel:
    """What `pointwise` and `cascade` begin with."""
    if given.reranker == "pointwise" and given.exits:
        raise ValueError("transformer.exits is for the cascade; pointwise has one, after its last layer: give `layers`")
    if given.reranker == "cascade" and start.kind != "cascade" and not given.exits:
        raise ValueError(
            "transformer.exits is missing: the layers after which the cascade has a classifier, e.g. [2, 3, 4, 5, 6]"
        )
    if start.model is None:
        return CascadeModel(start.encoder, given.exits or [start.encoder.shape.layers])
    if not isinstance(start.model, CascadeModel) or start.kind not in ("pointwise", given.reranker):
        raise ValueError(f"{start.name} is a checkpoint of {start.kind}; {given.reranker} cannot begin with it")
    model = start.model if start.kind == given.reranker else grown(start.model, given.exits)
    if given.exits not in ([], list(model.exits)):
        raise ValueError(f"{start.name} is a checkpoint with exits {list(model.exits)}; leave out transformer.layers and exits")
    return model


def _student(given: Transformer, start: _Start, distillation: Distillation) -> MultiHeadModel:
    """What `multihead` begins with. A checkpoint of its own may get exits, once."""
    own = distillation.teachers if distillation.strategy == "mhs" else 3
    wanted = given.heads or own, given.head_layers or 1, given.exits, given.average or "logits"
    if start.model is None:
        return split(start.encoder, *wanted)
    if isinstance(start.model, MultiHeadModel):
        model = start.model
        there = len(model.heads), model.head_layers, model.average
        for key, has in zip(("heads", "head_layers", "average"), there, strict=True):
            if getattr(given, key) not in (None, has):
                raise ValueError(f"{start.name} is a checkpoint with {key} {has!r}; leave out transformer.{key}")
        if given.exits and model.exits[:-1] not in ((), tuple(given.exits)):
            raise ValueError(f"{start.name} is a checkpoint with exits {list(model.exits[:-1])}; leave out transformer.exits")
        return model.with_exits(given.exits) if given.exits and not model.exits[:-1] else model
    if isinstance(start.model, CascadeModel):
        return split_model(start.model, *wanted)
    raise ValueError(f"{start.name} is a checkpoint of {start.kind}; multihead cannot begin with it")


def _distillation(job: TrainJob) -> Distillation:
    if job.distil is None:
        return NO_TEACHER
    if len(set(job.distil.teachers)) != len(job.distil.teachers):
        raise ValueError(f"distil.teachers = {job.distil.teachers}: a teacher is named twice")
    given = job.distil
    try:
        return Distillation(given.strategy, len(given.teachers), given.alpha, given.tau, tuple(given.weights))
    except ValueError as e:
        raise ValueError(f"distil: {e}") from e


def _passage_task(job: TrainJob, given: Peasi, learn: Passages, dev: Passages) -> tuple[PassageTask, Dev, str]:
    """Begins with a transformer's body, that of a checkpoint of `pointwise` or `cascade`, or a checkpoint of `peasi`, whose
    heads it takes over too; EASI, where it has a transformer of its own, with `easi`."""
    start = _start(job, given.encoder)
    _check_whole(start)
    model = PeasiModel(start.easi_encoder if given.variant == "easi" else start.encoder, given.variant, given.slots)
    second = start
    if model.easi_encoder is not None:
        second = _start(job, given.easi) if given.easi else start
        _check_beside(given, start, second)
        model.easi_encoder.load_state_dict(second.easi_encoder.state_dict())
    elif given.easi:
        raise ValueError(f"peasi.easi = {given.easi!r}, but variant {given.variant!r} has one transformer, peasi.encoder")
    if isinstance(start.model, PeasiModel):
        model.take_passage_head(start.model)
    if isinstance(second.model, PeasiModel):
        model.take_sentence_head(second.model)
    tokeniser, words = _stands_on(given, start, model)

    def keep(folder: Path, made: PeasiModel) -> None:
        peasi_model.save(folder, made, tokeniser, given.store, words)

    task = PassageTask(
        model,
        tokeniser,
        learn,
        dev,
        keep,
        tokens=given.tokens,
        classifier_rate=given.classifier_rate,
        seed=job.train.seed,
    )
    told = start.told if second is start else f"{start.told}, EASI {second.told}"
    return task, dev_lists(model, dev), f"{told}; {task.tokens_cut:,} tokens cut"


def _hash_task(job: TrainJob, given: Hashing, learn: Questions, dev: Questions) -> tuple[HashTask, Dev, str]:
    """Begins with a transformer's body, or that of any checkpoint; of one of `hashing` with its attention too."""
    _check_batch(job, "hashing")
    start = _start(job, given.encoder)
    _check_whole(start)
    model = HashingModel(start.encoder, given.variant, given.attention, given.beta)
    if isinstance(start.model, HashingModel):
        model.take_attention(start.model)
    tokeniser, words = _stands_on(given, start, model)

    def keep(folder: Path, made: HashingModel) -> None:
        hashing_model.save(folder, made, tokeniser, given.store, words)

    task = HashTask(
        model,
        tokeniser,
        learn,
        keep,
        TripletOptions(
            delta=given.delta,
            negatives=given.negatives,
            among=given.among,
            drawn=given.drawn,
            tokens=given.tokens,
            attention_rate=given.classifier_rate,
            seed=job.train.seed,
        ),
    )
    return task, Dev(dev), f"{start.told}; {task.tokens_cut:,} tokens cut"


def _check_batch(job: TrainJob, section: str) -> None:
    if "batch" in job.train.model_fields_set:
        raise ValueError(f"train.batch counts the questions of a list model's step; a transformer's is {section}.tokens")


@dataclass(frozen=True, slots=True)
class _Start:
    """What a training begins with: a transformer, or a checkpoint of ours."""

    name: str
    told: str
    kind: str | None  # the checkpoint's reranker
    model: CascadeModel | PeasiModel | HashingModel | None
    encoder: LayeredEncoder
    folder: Path  # of the tokenizer
    words: WordSource | None  # where it has its word embeddings from

    @property
    def easi_encoder(self) -> LayeredEncoder:
        """What EASI begins with: a checkpoint's own transformer of EASI, where it has one."""
        return (self.model.easi_encoder if isinstance(self.model, PeasiModel) else None) or self.encoder


def _start(job: TrainJob, name: str, layers: int | None = None) -> _Start:
    own = job.path(name)
    if not ((own / "config.json").is_file() and (own / "training.json").is_file()):
        folder = find_model(str(own) if own.is_dir() else name)
        encoder = LayeredEncoder.load(folder, layers)
        told = f"body {name}, {encoder.shape.layers} layers of {encoder.shape.width}"
        return _Start(name, told, None, None, encoder, folder, WordSource.read(name, folder))
    kind = kind_of(own)
    if kind not in ("pointwise", "cascade", "multihead", "peasi", "hashing"):
        raise ValueError(f"{own} is a checkpoint of {kind}, which has no transformer to begin with")
    model: CascadeModel | PeasiModel | HashingModel
    if kind == "peasi":
        model, tokeniser = peasi_model.load(own, find_model)
    elif kind == "multihead":
        model, tokeniser = multihead.load(own, find_model)
    elif kind == "hashing":
        model, tokeniser = hashing_model.load(own, find_model)
    else:
        model, tokeniser = cascade_model.load(own, kind, find_model)
    return _Start(own.name, f"begun with {own.name}", kind, model, model.encoder, tokeniser.path.parent, word_source(own))


def _check_whole(start: _Start) -> None:
    """Raises ValueError where the transformer lacks its last layers."""
    if isinstance(start.model, MultiHeadModel):
        raise ValueError(f"{start.name} is a checkpoint of multihead, whose last layers are its heads'; give another encoder")


def _stands_on(
    given: Body, start: _Start, model: CascadeModel | PeasiModel | HashingModel
) -> tuple[Tokeniser, WordSource | None]:
    """The tokenizer, and whose word embeddings stay as they are; makes the model ready for training."""
    if given.words == "source" and start.words is None:
        raise ValueError(f"{start.name} has word embeddings of its own; words = 'source' is for those of a transformer")
    words = start.words if given.words == "source" else None
    model.requires_grad_().to("cuda" if torch.cuda.is_available() else "cpu")
    for module in model.modules():
        if isinstance(module, LayeredEncoder):
            module.words.requires_grad_(words is None)
    return Tokeniser(start.folder, min(given.limit, start.encoder.shape.positions)), words


def _check_beside(given: Peasi, start: _Start, second: _Start) -> None:
    """A checkpoint has one shape and, with words = 'source', one source. Raises ValueError where the two differ."""
    ours, other = start.encoder.shape, second.encoder.shape
    if ours != other:
        told = f"{start.name} has {ours.layers} layers of {ours.width}, {second.name} {other.layers} of {other.width}"
        raise ValueError(f"peasi.encoder and peasi.easi must be of one shape: {told}")
    if given.words == "source" and (start.words and start.words.sha256) != (second.words and second.words.sha256):
        raise ValueError(
            f"{start.name} and {second.name} do not have the same word embeddings; words = 'source' is for two of one source"
        )
