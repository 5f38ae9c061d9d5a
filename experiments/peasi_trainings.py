"""Settings by which `trainings` trains PEASI, and AS2 for comparison: all begin with the cascade's last exit.

`peasi` is the one that ships: PR and EASI on one transformer, both with the cascade's classifier. The paper's
own variants (Table 2) have a linear PR on the first token and an EASI of k = 5 slots: `pr` and `easi` are
either alone, `mtl0` both on one transformer, `mtl1` each on its own, and `mtl1_pairs`, PR ⊕ EASI, joins `pr`
and `easi` in a second stage. `as2` reads the sentence alone, like the paper's, `as2_context` its title and
its neighbours too.

Of EPOCHS the paper has 3 for PR, 20 for EASI and 10 for those that learn both. New heads learn at NEW_HEADS
times the rate, those taken over at TAKEN_OVER times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from answermill.ranking.entry import SHIPPED
from experiments import peasi_data, train_lists
from experiments.long_lists import read_lists
from experiments.question_sets import draw
from experiments.question_sets.gold import Asked

TOKENS, LIMIT, NEGATIVES, SLOTS = 2_000, 320, 4, 5
NEW_HEADS, TAKEN_OVER = 10.0, 2.0
Body = Literal["small", "base"]
BODIES: dict[Body, str] = {"small": "cascade", "base": "cascade_base"}
"""Value of `--body` → the cascade that ships with which all begin: 6 layers of 384, or 12 of 768."""
PAPER: dict[str, Any] = {"pooling": "first", "context": ["passage"], "classifier_rate": NEW_HEADS}
EASI: dict[str, Any] = {"extractor": "slots", "slots": SLOTS}
TITLED: dict[str, Any] = {"context": ["passage", "title"], "context_dropout": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {
    "peasi": {"variant": "mtl0", "extractor": "span", "pooling": "mean", "tokens": 4_000, **TITLED},
    "pr": {"variant": "pr", **PAPER},
    "easi": {"variant": "easi", "classifier_rate": NEW_HEADS, **EASI},
    "mtl0": {"variant": "mtl0", **PAPER, **EASI},
    "mtl1": {"variant": "mtl1", **PAPER, **EASI},
    "mtl1_pairs": {"variant": "joint", "slots": SLOTS},
}
AS2: dict[str, dict[str, Any]] = {
    "as2": {"context": ["sentence"]},
    "as2_context": {
        "context": ["sentence", "title", "previous", "next"],
        "context_dropout": 0.1,
        "tokens": 2_400,  # a right sentence and its wrong ones, which stay together, have up to 1,108
    },
}
EPOCHS = dict.fromkeys((*VARIANTS, *AS2), 1) | {"easi": 3, "mtl0": 2, "mtl1": 2}
RATE = dict.fromkeys(VARIANTS, 5e-5) | dict.fromkeys(AS2, 3e-5)
PASSAGES, SENTENCES = ("passages-train", "passages-dev"), ("sentences-train", "sentences-dev")
FILES = dict.fromkeys(VARIANTS, PASSAGES) | dict.fromkeys(AS2, SENTENCES)
"""Model → names of its files of train and dev."""


def cascade(folder: Path, body: Body = "small") -> Path:
    """Checkpoint with which all begin: of the small body the one in `folder`, the folder of the trainings, if
    one was trained there, else the one that ships."""
    own = folder / "cascade"
    return own if body == "small" and own.is_dir() else SHIPPED / BODIES[body]


def trained_name(name: str, body: Body) -> str:
    """Name of the folder of a training.

    >>> trained_name("mtl1", "small"), trained_name("mtl1", "base")
    ('mtl1', 'mtl1-base')
    """
    return name if body == "small" else f"{name}-{body}"


def section(folder: Path, name: str, body: Body = "small") -> tuple[str, dict[str, Any], dict[str, Any]]:
    """(section, its keys, its recipe) of a training."""
    recipe = {"schedule": "linear", "precision": "auto", "clip": 1.0}
    start = {"encoder": str(cascade(folder, body)), "classifier_rate": TAKEN_OVER, "words": "source"}
    if name == "mtl1_pairs":
        apart = (str(folder / trained_name(part, body)) for part in ("pr", "easi"))
        start |= dict(zip(("encoder", "easi"), apart, strict=True))
    if name in VARIANTS:
        return "peasi", start | {"limit": LIMIT, "tokens": TOKENS} | VARIANTS[name], recipe

    learns = {"loss": "softmax", "bce_weight": 0.3, "negatives": NEGATIVES, "tokens": TOKENS}
    return "transformer", start | {"reranker": "cascade", "sampling": "all"} | learns | AS2[name], recipe


def prepare(data: Path, work: Path, asked: Sequence[Asked]) -> None:
    """Write the files that are missing. `asked`: questions of the lists in WORK/train."""
    folder = work / "train"
    learnt, dev = (folder / f"{name}.parquet" for name in PASSAGES)
    if not learnt.is_file():
        peasi_data.write_dev(read_lists(data, work, "dev"), dev)
        peasi_data.write_train(
            train_lists.asked_run(data, work, asked), asked, draw.test_answers(data), learnt
        )
    for lists, passages, sentences in zip(("train", "dev"), PASSAGES, SENTENCES, strict=True):
        if not (file := folder / f"{sentences}.parquet").is_file():
            peasi_data.write_sentences(folder / f"{lists}.parquet", folder / f"{passages}.parquet", file)
