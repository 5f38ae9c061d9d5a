"""The checkpoints that ship, trained from L-train: one command, which goes on where it was stopped.

`cascade` reads a sentence with its title and its neighbours. It goes on from the cascade that ships, or with --begin encoder
begins with the pretrained encoder, and learns each right
sentence against wrong ones of all documents (a softmax over the group, and some BCE, which says where a score of 0 lies), all
exits in each step, the early ones from the last one as well: so its last exit is the cross-encoder. Negatives are drawn from
the lists of `benchmarks.train_lists`, which are built first. `cosinet` reads beside the words what retrieval and the page say
of a sentence, and learns from whole lists. Trainings are those of `answermill train` and stand in WORK/train/NAME; the dev
score is the MRR of L-dev's best sentences.

Keys: `NAME_dev_mrr` in percent, `NAME_steps`, `NAME_hours` of this process (0 if it was complete already). --model trains one
of them, or builds the lists alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import train_lists
from benchmarks.harness import arguments, finish, say, shrink, work_folder
from benchmarks.question_sets import draw
from benchmarks.question_sets.gold import drawn
from benchmarks.smoke_data import small_encoder
from indexing.shards.dense import DEFAULT
from pipelines.config.training_file import TrainJob
from pipelines.train.train import run
from ranking.cosinet.list_settings import FEATURES
from ranking.entry import SHIPPED

ENCODER, EXITS, SET = DEFAULT, [2, 3, 4, 5, 6], "train"
TOKENS, LIMIT, NEGATIVES, EVALUATE = 6_000, 256, 8, 600
VOCABULARY = ("squad/squad-sent-test.parquet", "selqa/selqa-test.parquet")
"""Whose words have vectors too, besides those of the lists."""
EPOCHS = {"cascade": 1, "cosinet": 3}
RATE = {"cascade": 5e-5, "cosinet": 2e-4}
BEGINNINGS = ("shipped", "encoder")
NAME = (
    "SQuAD v1.1 train (Rajpurkar et al. 2016) and QED train (Lamm et al. 2021: real queries of Natural Questions, "
    "Kwiatkowski et al. 2019)"
)
LICENCE = "CC BY-SA 4.0 (SQuAD), CC BY-SA 3.0 (QED, Natural Questions)"
LISTS = "lists"
"""What `--model` calls the lists alone."""


def training(folder: Path, name: str, data: Path, begin: str) -> TrainJob:
    """The training `name` on the lists in `folder`."""
    section, model, recipe = cosinet(data) if name == "cosinet" else cascade(begin)
    return TrainJob.model_validate(
        {
            section: model | {"store": "fp16"},
            "data": {
                "name": NAME,
                "licence": LICENCE,
                "train": [str(folder / "train.parquet")],
                "dev": [str(folder / "dev.parquet")],
            },
            "train": recipe | {"epochs": EPOCHS[name], "learning_rate": RATE[name], "metric": "MRR"},
        }
    )


def cosinet(data: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The section, its keys, and how it learns."""
    model = {
        "reranker": "cosinet",
        "form": "list",
        "features": list(FEATURES),
        "embeddings": DEFAULT,
        "vocabulary": [str(data / file) for file in VOCABULARY],
        "min_count": 2,
        "vectors": "source",
    }
    return "model", model, {"batch": 4}


def cascade(begin: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The section, its keys, and how it learns."""
    model: dict[str, Any] = {
        "reranker": "cascade",
        "encoder": str(SHIPPED / "cascade") if begin == "shipped" else ENCODER,
        "exits": EXITS,
        "context": ["sentence", "title", "previous", "next"],
        "context_dropout": 0.3,
        "classifier_rate": 10.0,
        "sampling": "all",
        "self_distillation": 1.0,
        "drop": [0.2],
    }
    model |= {"limit": LIMIT, "tokens": TOKENS, "loss": "softmax", "bce_weight": 0.3, "negatives": NEGATIVES}
    return (
        "transformer",
        model | {"words": "source"},
        {
            "schedule": "linear",
            "precision": "bf16",
            "clip": 1.0,
            "evaluate_every": EVALUATE,
        },
    )


def trained(folder: Path, name: str, data: Path, begin: str) -> dict[str, float | int | str]:
    """Train one, or go on with it; its keys."""
    began = time.perf_counter()
    for line in run(training(folder, name, data, begin), folder / name):
        say(f"{name}: {line}")
    history = json.loads((folder / name / "training.json").read_text(encoding="utf-8"))
    return {
        f"{name}_dev_mrr": 100 * max(each["dev"] for each in history["evaluations"]),
        f"{name}_steps": history["step"],
        f"{name}_hours": (time.perf_counter() - began) / 3600,
    }


def main() -> None:
    options = arguments(
        "trainings",
        __doc__ or "",
        paths={"work": "folder that keeps lists and checkpoints; out/long_lists"},
        numbers={"questions": "of L-train, drawn by hash; all of them if absent"},
        choices={"model": ("all", LISTS, *EPOCHS), "begin": BEGINNINGS},
    )
    if options.smoke:
        shrink(globals(), ENCODER=small_encoder(), EXITS=[2, 6], TOKENS=1_500, NEGATIVES=2, SET="dev")
        options.begin = "encoder"
        train_lists.small_lists()
    torch.set_num_threads(1)
    data = options.data.resolve()
    with work_folder(options, "long_lists") as work:
        asked = draw.questions(data, SET)
        names = set(drawn((each.question_id for each in asked), int(options.questions or len(asked))))
        result = train_lists.written(data, work, [each for each in asked if each.question_id in names])
        for name in EPOCHS:
            if options.model in ("all", name):
                result |= trained(work / "train", name, data, options.begin)
    finish("trainings", result, options.save)


if __name__ == "__main__":
    main()
