"""The training file: what is trained, on which data, and how.

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

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from pipelines.config.job_file import load
from schemas.section import Count, Section


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
    slots: Count = Field(5, description="sentences that EASI chooses among at once (k); longer passages are read in windows")
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
