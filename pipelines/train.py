"""Train: TRAIN.toml and data sets in; a checkpoint folder with its card out.

[model]
reranker = "cosinet"
form = "birnn"

[data]
name = "WikiQA"
licence = "Microsoft Research Data License"
train = ["WikiQA-train.tsv"]
dev = ["WikiQA-dev.tsv"]

[train]
epochs = 3
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, PrivateAttr, model_validator

from pipelines.datasets import read_dataset
from pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, JobError
from pipelines.job import Count, Section, load
from pipelines.progress import print_line, progress
from pipelines.records import sha256, write_text
from pipelines.scores import by_question
from pipelines.step import code_version
from pipelines.tables import read_passages
from pipelines.tasks import task_of
from pipelines.teachers import table_file, teach
from ranking.train import STATE, Dev, History, Progress, Recipe, Task, finished, train
from schemas.labels import LabelledCandidate, LabelledPassage

CARD = "README.md"


class Model(Section):
    """What is trained, where it is a list model over static word vectors."""

    reranker: Literal["cosinet", "compare_aggregate"] = Field(description="model to train")
    form: Literal["pointwise", "list", "rnn", "birnn", "lstm", "bilstm"] = Field(
        "birnn", description="head over the candidates in their original order (Cosinet Table 4)"
    )
    embeddings: str = Field(
        "all-MiniLM-L6-v2",
        description="word vectors: a word2vec, GloVe or Numberbatch file; or a transformer (the embedded default, a folder, "
        "a hub name) whose word pieces' vectors make them",
    )
    vocabulary: list[str] = Field(
        [], description="further data sets or text files, one text a line, whose words get vectors too, for use on other texts"
    )
    min_count: Count = Field(1, description="words that are met less often get no vector")
    filters: Count = Field(300, description="filters of each convolution")
    store: Literal["fp32", "fp16"] = Field("fp32", description="how the checkpoint's numbers are stored")
    vectors: Literal["stored", "source"] = Field(
        "stored",
        description="'source' leaves a transformer's vectors out of the checkpoint: they are made again on loading",
    )


class Body(Section):
    """What trainings of transformers have in common."""

    encoder: str = Field(
        "all-MiniLM-L6-v2",
        description="body to begin with: the embedded default, a folder, or a hub name of a BERT, RoBERTa or ELECTRA; or a "
        "checkpoint, whose training goes on with other data (TANDA's adapt after its transfer)",
    )
    limit: int = Field(256, ge=8, description="tokens of question and candidate together; what is longer is cut, and counted")
    tokens: Count = Field(2_000, description="of the texts of a step")
    classifier_rate: float = Field(
        1.0, gt=0, description="learning rate of the classifiers, which are new, as a multiple of train.learning_rate"
    )
    store: Literal["fp32", "fp16"] = Field("fp32", description="how the checkpoint's numbers are stored")
    words: Literal["trained", "source"] = Field(
        "trained",
        description="'source' leaves the word embeddings as the encoder has them; the checkpoint takes them from there",
    )


class Transformer(Body):
    """What is trained, where it is a transformer that reads sentences."""

    reranker: Literal["pointwise", "cascade", "multihead"] = Field(description="model to train")
    layers: int | None = Field(None, ge=1, description="of the body, only its first so many; none = all")
    exits: list[int] = Field(
        [],
        description="cascade: layers after which there is a classifier, the last layer too (§4.2: 4, 6, 8, 10, 12); multihead: "
        "layers of the body after which one prunes",
    )
    heads: int | None = Field(
        None, ge=1, description="multihead: k; as many as there are teachers where absent and each has its own, else 3"
    )
    head_layers: int | None = Field(None, ge=1, description="multihead: layers of each head (h of B_b kH_h); 1 where absent")
    average: Literal["logits", "probabilities"] | None = Field(
        None, description="multihead: what the score is the mean of; logits where absent"
    )
    sampling: Literal["uniform", "round_robin", "early"] = Field(
        "uniform",
        description="cascade: which exit a step trains (§4.3.1): at random, in turn, or at first the early ones more often",
    )
    early_epochs: Count = Field(1, description="cascade: epochs in which 'early' prefers the early exits")
    drop: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [], description="cascade: share that leaves at each exit but the last when the dev score is taken; one number for all"
    )
    stop_gradient: bool = Field(
        False, description="cascade: an exit trains no layer below the exit before it (§4.3.1: it hurts)"
    )


class Peasi(Body):
    """What is trained, where it reads passages, which `answermill passages` makes; dev metric P@1, P@k, MAP or MRR."""

    reranker: Literal["peasi"] = "peasi"
    variant: Literal["pr", "easi", "mtl0", "mtl1", "joint"] = Field(
        description="passage reranker or sentence extractor alone; both on one transformer; each on its own, trained together; "
        "or those with EASI's embedding in PR (PEASI Table 2). The dev score is of passages for 'pr', of each passage's "
        "sentences for 'easi', else of the answers"
    )
    easi: str = Field("", description="mtl1, joint: the checkpoint that EASI begins with; as `encoder` where empty")
    slots: Count = Field(12, description="sentences that EASI chooses among at once (k); longer passages are read in windows")
    limit: int = Field(320, ge=8, description="tokens of question and passage together; what is longer is cut, and counted")


class Hashing(Body):
    """What is trained, where it encodes questions and answers apart (HAS), on labelled candidates."""

    reranker: Literal["hashing"] = "hashing"
    variant: Literal["pooling", "attention", "has"] = Field(
        description="both sides max-pooled; the answer composed by attention; or that over bits (HAS Table 5)"
    )
    attention: Count = Field(128, description="hidden size of the attention (M)")
    beta: float = Field(5.0, ge=1, description="has: β of tanh(βx), which stands for the sign in training (Eq. 1)")
    delta: float = Field(1e-6, ge=0, description="has: δ, weight of the binary constraint (Eq. 2), a sum over tokens × width")
    limit: int = Field(200, ge=8, description="tokens of a question, and of an answer (L); what is longer is cut, and counted")
    classifier_rate: float = Field(
        1.0, gt=0, description="learning rate of the attention, which is new, as a multiple of train.learning_rate"
    )
    negatives: Literal["random", "hard"] = Field(
        "random", description="wrong answer of a triplet: drawn, or of `drawn` drawn ones the one that the model scores highest"
    )
    among: Literal["list", "all"] = Field(
        "list",
        description="wrong answers are drawn from the question's own, where it has some, or from all answers of the data",
    )
    drawn: Count = Field(8, description="hard: wrong answers to choose from")


class Distil(Section):
    """Teachers of a [transformer], whose logits were written before (MHS §3.2, §3.3)."""

    tables: Annotated[list[str], Field(min_length=1)] = Field(
        description="runs or their scored/ folders, or Parquets with a column for each teacher, that hold the training pairs"
    )
    teachers: Annotated[list[str], Field(min_length=1)] = Field(
        description="stages or columns, in the order of the heads; their scores must be logits"
    )
    strategy: Literal["single", "sum", "round_robin", "mhs"] = Field(
        description="one teacher, in every head; the sum of all teachers' losses; a teacher each step in turn; a teacher a head"
    )
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the labels' loss; 1 - alpha that of the teachers (Eq. 1)")
    tau: float = Field(3.0, gt=0, description="temperature of both softened distributions (Eq. 2, 3)")
    weights: list[Annotated[float, Field(ge=0)]] = Field(
        [], description="λ of each head (mhs, single) or of each teacher (Eq. 4); 1 where absent"
    )


class Data(Section):
    """What it learns from."""

    name: str = Field(description="of the training data, for the card")
    licence: str = Field(description="of the training data, for the card")
    train: Annotated[list[str], Field(min_length=1)] = Field(
        description="data sets, in any form that `answermill dataset` reads"
    )
    dev: Annotated[list[str], Field(min_length=1)] = Field(description="data sets that the dev score is measured on")
    form: str | None = Field(None, description="form of all of them where it is not recognised")


class Train(Section):
    """How it learns. The defaults are Cosinet's for list-wise training (§5.2)."""

    epochs: Count = Field(3, description="passes over the training data")
    batch: Count = Field(1, description="list models: questions per step, with all their candidates")
    learning_rate: float = Field(2e-4, gt=0, description="at its highest; Cosinet takes 2e-4 list-wise, 2e-3 pointwise")
    schedule: Literal["slanted", "linear", "constant"] = Field(
        "slanted", description="slanted triangle; linear warm-up and decay; or level"
    )
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps in which 'linear' rises")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's")
    clip: float | None = Field(None, gt=0, description="gradient norm that is not exceeded")
    evaluate_every: int = Field(0, ge=0, description="steps between evaluations; 0 = one at the end of each epoch")
    patience: int | None = Field(None, ge=1, description="evaluations without a better dev score before it stops; none = never")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="of the matrix products; bf16 is faster where the processor multiplies it"
    )
    metric: str = Field("MAP", description="dev score: MAP, MRR, P@k, nDCG@k")
    protocol: Literal["raw", "answerable", "clean"] = Field("answerable", description="which dev questions count")
    seed: int = Field(0, ge=0, description="of the initial weights and of the order of the questions")
    threads: Count = Field(1, description="of torch on the CPU")


class TrainJob(Section):
    """A whole training."""

    model: Model | None = None
    transformer: Transformer | None = None
    peasi: Peasi | None = None
    distil: Distil | None = None
    hashing: Hashing | None = None
    data: Data
    train: Train = Train()

    _folder: Path = PrivateAttr(Path())

    @property
    def trained(self) -> Model | Transformer | Peasi | Hashing:
        """The section of what is trained."""
        made = self.model or self.transformer or self.peasi or self.hashing
        assert made is not None  # `_one_of_them`
        return made

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if [self.model, self.transformer, self.peasi, self.hashing].count(None) != 3:
            raise ValueError(
                "give one of [model] (cosinet, compare_aggregate), [transformer] (pointwise, cascade, multihead), [peasi] (on "
                "passages) and [hashing]"
            )
        if self.distil is not None and self.transformer is None:
            raise ValueError("[distil] is for a [transformer]")
        return self

    def path(self, written: str) -> Path:
        """A path as the job means it: relative to the job file's folder."""
        return self._folder / Path(written).expanduser()


def load_job(path: Path, overrides: Sequence[str] = ()) -> TrainJob:
    """Raises JobError as `job.load` does."""
    return load(path, overrides, TrainJob)


def run(job: TrainJob, out: Path) -> Iterator[str]:
    """Train into `out`, or go on there; yields lines for people.

    Raises JobError: 65 and 66 where the data are wrong or missing, 73 where `out` holds something else, 78 where the settings
    cannot be meant; ModelMissing where the embeddings' transformer cannot be had.
    """
    files = [job.path(written) for written in (*job.data.train, *job.data.dev)]
    if job.model is not None:
        files += map(job.path, job.model.vocabulary)
    for body in (getattr(job.trained, key, "") for key in ("encoder", "easi")):
        if body and (begun := job.path(body) / "model.safetensors").is_file():
            files.append(begun)
    for file in files:
        if not file.is_file():
            raise JobError(f"{file}: no such file", INPUT_MISSING)
    if job.distil is not None:
        files += [table_file(job.path(table)) for table in job.distil.tables]
    digests = {str(file): sha256(file) for file in files}
    decisive = [job.model_dump(exclude={"data": {"name", "licence"}}, exclude_none=True), list(digests.values())]
    fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]
    done = finished(out)
    if done is not None or (out.exists() and not (out / STATE).is_dir() and any(out.iterdir())):
        if done is None or done.fingerprint != fingerprint:
            raise JobError(f"{out} holds something else; give another --out, or delete it", OUTPUT_EXISTS)
        yield f"{_summary(job, done)} (complete)"
        return
    torch.set_num_threads(job.train.threads)
    learn, dev_set = ([rows for name in names for rows in _questions(job, name)] for names in (job.data.train, job.data.dev))
    yield f"{_told(job.data.train, learn)}; dev {_told(job.data.dev, dev_set)}"
    logits: Sequence[npt.NDArray[np.float32]] = ()
    if job.distil is not None:
        taught = teach([job.path(table) for table in job.distil.tables], job.distil.teachers, learn)
        learn, logits = taught.questions, taught.logits
        yield f"teachers {taught.told}"
    torch.manual_seed(job.train.seed)
    try:
        task, dev, told = task_of(job, learn, dev_set, logits)
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    parameters = sum(p.numel() for p in task.model.parameters() if p.requires_grad)
    yield f"{_name(job)}: {parameters:,} parameters; {told}"
    recipe = Recipe(**job.train.model_dump(exclude={"batch", "threads"}))
    began = time.monotonic()
    try:
        history = _watched(task, dev, recipe, out, fingerprint)
    except ValueError as e:
        raise JobError(str(e), BAD_DATA) from e
    write_text(out / CARD, "\n".join(_card(job, history, parameters, digests, told, time.monotonic() - began)) + "\n")
    yield _summary(job, history)


def _watched(task: Task, dev: Dev, recipe: Recipe, out: Path, fingerprint: str) -> History:
    """Train with progress on stderr: steps all the while, and a line per evaluation."""
    now = Progress(0, 1, 0.0, None, None)

    def tell(state: Progress) -> None:
        nonlocal now
        now = state
        if state.dev is not None:
            line = {"step": state.step, "of": state.steps, "loss": round(state.loss, 4)}
            print_line(json.dumps({**line, f"dev_{recipe.metric}": round(state.dev, 4), "best": round(state.best or 0.0, 4)}))

    with progress("train", task.steps * recipe.epochs, lambda: now.step):
        return train(task, dev, recipe, out, fingerprint, tell)


def _questions(job: TrainJob, name: str) -> list[list[Any]]:
    """A file's candidates, or passages, of each question."""
    if job.peasi is not None:
        return [list(rows) for rows in read_passages(job.path(name))]
    return list(by_question(read_dataset(job.path(name), job.data.form)))


def _told(files: Sequence[str], questions: Sequence[Sequence[LabelledCandidate | LabelledPassage]]) -> str:
    answered = sum(any(row.label for row in rows) for rows in questions)
    return f"{', '.join(files)}: {len(questions):,} questions, {answered:,} answered, {sum(map(len, questions)):,} candidates"


def _name(job: TrainJob) -> str:
    if job.model is not None:
        return f"{job.model.reranker} {job.model.form}"
    if job.peasi is not None:
        return f"peasi {job.peasi.variant} of {Path(job.peasi.encoder).name}"
    if job.hashing is not None:
        return f"hashing {job.hashing.variant} of {Path(job.hashing.encoder).name}"
    assert job.transformer is not None
    return f"{job.transformer.reranker} of {Path(job.transformer.encoder).name}"


def _summary(job: TrainJob, history: History) -> str:
    best = history.best
    assert best is not None
    where = f"step {best.step:,}, epoch {best.epoch:.1f}"
    return f"train      {_name(job)}: best dev {job.train.metric} {100 * best.dev:.2f} at {where}"


def revision() -> str:
    """The package's version, and the commit where it runs from a checkout, marked where the code differs from it."""
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty=, changed",
    ]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return code_version()
    return f"{code_version()}, commit {found.stdout.strip()}" if found.returncode == 0 else code_version()


def _without_folders(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with files by their names: whoever reads the card has other folders."""
    for section, key in (("model", "vocabulary"), ("data", "train"), ("data", "dev"), ("distil", "tables")):
        if section in settings:
            settings[section][key] = [Path(file).name for file in settings[section][key]]
    bodies = (("transformer", "encoder"), ("peasi", "encoder"), ("peasi", "easi"), ("hashing", "encoder"))
    for section, key in (("model", "embeddings"), *bodies):
        if section in settings:
            settings[section][key] = Path(settings[section][key]).name
    return settings


def _card(
    job: TrainJob, history: History, parameters: int, digests: dict[str, str], told: str, seconds: float
) -> Iterator[str]:
    best = history.best
    assert best is not None
    reranker = job.trained.reranker
    yield f"# {_name(job)}"
    yield ""
    yield f'A checkpoint of AnswerMill {revision()}; `reranker = "{reranker}"`, `checkpoint = "<this folder>"`.'
    yield ""
    yield f"- Trained on {job.data.name}. Licence of the data: {job.data.licence}."
    yield f"- {parameters:,} parameters, stored as {job.trained.store}. {told}."
    score = f"{job.train.metric} ({job.train.protocol}): {100 * best.dev:.2f}"
    yield f"- Best dev {score}, at step {best.step:,} of {history.step:,}."
    yield f"- {seconds:.0f} s of training since its last start, torch {torch.__version__}."
    yield ""
    yield "| step | epoch | loss | dev |"
    yield "|---|---|---|---|"
    for evaluated in history.evaluations:
        yield f"| {evaluated.step:,} | {evaluated.epoch:.2f} | {evaluated.loss:.4f} | {100 * evaluated.dev:.2f} |"
    yield ""
    yield "Files, by SHA-256:"
    yield ""
    yield from (f"- `{Path(file).name}` {digest}" for file, digest in digests.items())
    yield ""
    yield "```json"
    yield json.dumps(_without_folders(job.model_dump(exclude_none=True)), indent=1, ensure_ascii=False)
    yield "```"
