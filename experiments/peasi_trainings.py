"""Settings by which `trainings` trains PEASI, and AS2 for comparison: all begin with the cascade's last exit.

The cascade is the one in WORK/train, or the shipped one if none was trained there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answermill.ranking.entry import SHIPPED
from experiments import peasi_data, train_lists
from experiments.long_lists import read_lists
from experiments.question_sets import draw
from experiments.question_sets.gold import Asked

TOKENS, LIMIT, NEGATIVES = 4_000, 320, 4
RATE = {"peasi": 5e-5, "pr": 5e-5, "easi": 5e-5, "as2": 3e-5}
VARIANTS: dict[str, dict[str, Any]] = {
    "peasi": {"variant": "mtl0", "extractor": "span", "pooling": "mean"},
    "pr": {"variant": "pr", "pooling": "mean"},
    "easi": {"variant": "easi", "extractor": "span"},
}
PASSAGES = "passages-train", "passages-dev"
FILES = dict.fromkeys(VARIANTS, PASSAGES) | {"as2": ("sentences", "dev")}
"""Model → names of its files of train and dev."""


def cascade(folder: Path) -> Path:
    """Checkpoint with which all begin. `folder`: folder of the trainings."""
    own = folder / "cascade"
    return own if own.is_dir() else SHIPPED / "cascade"


def section(folder: Path, name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """(section, its keys, its recipe) of a training."""
    start = {"encoder": str(cascade(folder)), "classifier_rate": 2.0, "words": "source"}
    recipe = {"schedule": "linear", "precision": "bf16", "clip": 1.0}
    if name in VARIANTS:
        reads = {"context": ["passage", "title"], "context_dropout": 0.1, "limit": LIMIT, "tokens": TOKENS}
        return "peasi", start | VARIANTS[name] | reads, recipe
    learns = {"loss": "softmax", "bce_weight": 0.3, "negatives": NEGATIVES, "tokens": TOKENS}
    return (
        "transformer",
        start | {"reranker": "cascade", "sampling": "all", "context": ["sentence"]} | learns,
        recipe,
    )


def prepare(data: Path, work: Path, asked: Sequence[Asked]) -> None:
    """Write the files that are missing. `asked`: questions of the lists in WORK/train."""
    folder = work / "train"
    learnt, dev = (folder / f"{name}.parquet" for name in PASSAGES)
    if not learnt.is_file():
        peasi_data.write_dev(read_lists(data, work, "dev"), dev)
        peasi_data.write_train(
            train_lists.asked_run(data, work, asked), asked, draw.test_answers(data), learnt
        )
    if not (folder / "sentences.parquet").is_file():
        peasi_data.write_sentences(folder / "train.parquet", learnt, folder / "sentences.parquet")
