"""Trainings of `experiments.cascade_quality`, and their questions.

`prepare` writes the sets. The transfer learns from real queries (QED train) and from questions of SQuAD v1.1
train, at most TRANSFER of each, drawn by hash; a question's candidates are the sentences of its own
paragraph. The adapt learns from WikiQA. No question has the words of a test question, and no candidate is an
answer of one; in the transfer no question is about a document of a test question either.

`transfers` are `mtN-transfer`, the cuts of the monolithic model, and `plain-transfer`, the cascade that
begins with the plain encoder, as the paper's does. `adapts` are, for each seed, `mtN-SEED` and `plain-SEED`,
which begin with these, and a cascade for each of SAMPLINGS, which begins with the monolithic model's transfer
and learns its early exits in the adapt alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch

from answermill.indexing.shards.dense import DEFAULT
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.learn.train.train import run
from answermill.schemas.labels import LabelledCandidate
from experiments.question_sets import draw, sources
from experiments.question_sets.learnable import Questions, answered, asked_in_tests, learnable

ENCODER, DEPTH = DEFAULT, 6
EXITS, CUTS, SEEDS = (2, 3, 4, 5, 6), (2, 4, 6), (0, 1, 2)
SAMPLINGS: dict[str, dict[str, Any]] = {
    "uniform": {"sampling": "uniform"},
    "round_robin": {"sampling": "round_robin"},
    "stop": {"sampling": "uniform", "stop_gradient": True},
    "all": {"sampling": "all"},
}
"""Ways of learning a cascade's exits (§4.3.1): the paper's, two of its ablations, and all exits in each
step."""
TRANSFER = {"qed": 5_000, "squad": 2_500}
FILES = {"qed": sources.QED["train"], "squad": "qa-train/squad-train/squad-sent-train-v1.1.parquet"}
TRANSFER_RATE, ADAPT_RATE, ADAPT_EPOCHS = 1e-4, 5e-5, 2
SETS = {
    "transfer": (
        "QED train (Lamm et al. 2021: real queries of Natural Questions, Kwiatkowski et al. 2019) and SQuAD "
        "v1.1 train "
        "(Rajpurkar et al. 2016)",
        "CC BY-SA 3.0 (QED, Natural Questions), CC BY-SA 4.0 (SQuAD)",
    ),
    "wikiqa": ("WikiQA (Yang et al. 2015)", "Microsoft Research Data License"),
}


class Training(NamedTuple):
    """A training by its name. `begins`: the training that it begins with; None for the plain encoder, which
    is ENCODER unless the section names another. `rate`: peak of its learning rate; that of its data if
    None."""

    name: str
    data: str
    section: dict[str, Any]
    seed: int = 0
    begins: str | None = None
    rate: float | None = None


def prepare(data: Path, work: Path) -> None:
    """Write transfer-train.parquet, wikiqa-train.parquet and wikiqa-dev.parquet, with the questions that have
    an answer."""
    if (work / "wikiqa-dev.parquet").is_file():
        return
    sets = {
        "transfer-train": [rows for name in FILES for rows in transfer_lists(data, name)],
        "wikiqa-train": learnable(data, answered(data / "wikiqa/wikiqa-train.parquet")),
        "wikiqa-dev": answered(data / "wikiqa/wikiqa-dev.parquet"),
    }
    for name, lists in sets.items():
        pq.write_table(
            LabelledCandidate.table([row for rows in lists for row in rows]), work / f"{name}.parquet"
        )


def transfer_lists(data: Path, name: str) -> Questions:
    """Paragraphs of TRANSFER questions of a set that are apart from all test questions."""
    questions = sources.qed(data, "train") if name == "qed" else sources.squad_train(data)
    is_apart, leaks = draw.apart_from(asked_in_tests(data)), draw.leaked(data)
    drawn = draw.some(
        [question for question in questions if is_apart(question) and question.question_id not in leaks],
        TRANSFER[name],
    )
    ids = {question.question_id.partition(":")[2] for question in drawn}
    lists = (rows for rows in by_question(read_dataset(data / FILES[name])) if rows[0].question_id in ids)
    return learnable(
        data, [[replace(row, title=row.title.replace("_", " ")) for row in rows] for rows in lists]
    )


def transfers() -> Iterator[Training]:
    for depth in CUTS:
        layers = {} if depth == DEPTH else {"layers": depth}
        yield Training(f"mt{depth}-transfer", "transfer", {"reranker": "pointwise", **layers})
    yield Training(
        "plain-transfer", "transfer", {"reranker": "cascade", "exits": list(EXITS), "sampling": "all"}
    )


def adapts(seed: int) -> Iterator[Training]:
    for depth in CUTS:
        yield Training(f"mt{depth}-{seed}", "wikiqa", {"reranker": "pointwise"}, seed, f"mt{depth}-transfer")
    cascade: dict[str, Any] = {"reranker": "cascade", "drop": [0.3]}
    yield Training(f"plain-{seed}", "wikiqa", {**cascade, "sampling": "all"}, seed, "plain-transfer")
    for name, sampling in SAMPLINGS.items():
        section = {**cascade, "exits": list(EXITS), "classifier_rate": 10.0, **sampling}
        yield Training(f"{name}-{seed}", "wikiqa", section, seed, f"mt{DEPTH}-transfer")


def training(work: Path, wanted: Training) -> TrainJob:
    transfer = wanted.data == "transfer"
    name, licence = SETS[wanted.data]
    read = {"context": ["sentence", "title"], "context_dropout": 0.2, "limit": 160} if transfer else {}
    section: dict[str, Any] = {
        "encoder": str(work / wanted.begins) if wanted.begins else ENCODER,
        "tokens": 2_000,
        "classifier_rate": 10.0 if transfer else 5.0,
        "loss": "softmax",
        "bce_weight": 0.3,
        "negatives": 5,
        "words": "source",
        "store": "fp16",
    }

    return TrainJob.model_validate(
        {
            "transformer": {**section, **read, **wanted.section},
            "data": {
                "name": name,
                "licence": licence,
                "train": [str(work / f"{wanted.data}-train.parquet")],
                "dev": [str(work / "wikiqa-dev.parquet")],
            },
            "train": {
                "epochs": 1 if transfer else ADAPT_EPOCHS,
                "learning_rate": wanted.rate or (TRANSFER_RATE if transfer else ADAPT_RATE),
                "schedule": "linear",
                "precision": "auto",
                "clip": 1.0,
                "seed": wanted.seed,
            },
        }
    )


def train(work: Path, wanted: Training) -> str:
    return train_in(work / wanted.name, training(work, wanted))


def train_in(folder: Path, job: TrainJob) -> str:
    """Train on one thread; return the folder's name and the last line of the training."""
    torch.set_num_threads(1)
    *_, last = run(job, folder)
    return f"{folder.name}: {last}"
