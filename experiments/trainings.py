"""The checkpoints that ship, trained from L-train by one command, which resumes where it was stopped.

`cascade` reads a sentence with its title and its neighbours. It begins with the pretrained encoder and learns
from L-train, or starts from the cascade that ships: with `--set more` from L-more, whose questions it has
not seen, else more slowly from RECALLED questions of L-train. It always learns from the lists of
`experiments.reason_lists` too: each right sentence against wrong ones of all documents (a softmax over the
group, and some BCE, which says where a score of 0 lies), all exits in each step, the early ones from the last
one as well: so its last exit is the cross-encoder. Negatives are drawn from the lists of
`experiments.train_lists`, which are built first. A cascade that went on ships as WORK/train/cascade-mean, the
mean of its weights and of those that it began with: it keeps what the one knew of L-dev's questions, and what
the other learnt of reasons (Wortsman et al. 2022, "Robust fine-tuning"). `hashing` begins with the encoder.
It learns each right sentence of L-train against that one of DRAWN wrong sentences of its list that scores
highest; the list has wrong ones of the same passage and document, and the best retrieved of all documents.
`cosinet` reads beside the words what retrieval and the page say of a sentence, and learns from whole lists.
Trainings are those of `answermill train` and stand in WORK/train/NAME; the dev score is the MRR of L-dev's
best sentences.

`peasi` begins with the cascade, from whose last exit both its heads take the classifier: one pass over a
passage ranks it (PR) and each of its sentences (EASI). It learns from passages of a part of L-train
(`peasi_data`). The paper's own variants of PEASI, and AS2 adapted to the sentences of the same questions
(`peasi_trainings`), do not ship: these are for `peasi_quality`. The dev score is the MRR of passages for
`pr`, of a passage's sentences for `easi`, and of the answers that the best passage gives for the others.

Keys: `NAME_dev_mrr` in percent, `NAME_steps`, `NAME_hours` of this process (0 if it was complete already).
--model trains one of them, or builds the lists alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from answermill.files.atomic_files import write_text
from answermill.files.model_files import HISTORY
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.learn.train.train import run
from answermill.ranking.entry import SHIPPED
from answermill.ranking.rerankers.cascade.cascade_model import load_cascade, save
from answermill.ranking.rerankers.cosinet.list_settings import FEATURES
from answermill.ranking.transformer.transformer_checkpoint import StoredForm, word_source
from answermill.schemas.labels import LabelledCandidate
from experiments import peasi_trainings, reason_lists, train_lists
from experiments.question_sets import draw
from experiments.question_sets.gold import drawn
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_encoder

TAKES = "hours"
MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = "Cosinet, HAS and PEASI that ship, and a former cascade."

ENCODER, EXITS, SETS = DEFAULT, [2, 3, 4, 5, 6], ("train", "more")
TOKENS, LIMIT, NEGATIVES, EVALUATE, DRAWN = 6_000, 256, 8, 600, 8
VOCABULARY = ("squad/squad-sent-test.parquet", "selqa/selqa-test.parquet")
"""Files whose words have vectors too, besides those of the lists."""
EPOCHS = {"cascade": 1, "cosinet": 3, "hashing": 2} | peasi_trainings.EPOCHS
RATE = {"cascade": 5e-5, "cosinet": 2e-4, "hashing": 5e-5} | peasi_trainings.RATE
BEGINNINGS = ("shipped", "encoder")
RECALLED, SLOWER = 4_000, 3e-5
"""Questions of L-train, and the learning rate, of a cascade that has learnt from all of L-train before."""
NAME = (
    "SQuAD v1.1 train (Rajpurkar et al. 2016) and QED train (Lamm et al. 2021: real queries of Natural "
    "Questions, "
    "Kwiatkowski et al. 2019)"
)
LICENCE = "CC BY-SA 4.0 (SQuAD), CC BY-SA 3.0 (QED, Natural Questions)"
LISTS = "lists"
"""Value of `--model` for the lists alone."""


def training(
    folder: Path,
    name: str,
    data: Path,
    begin: str,
    questions: str,
    threads: int = 1,
    body: peasi_trainings.Body = "small",
) -> TrainJob:
    """The training `name` on the lists in `folder`, of this set of questions. `body`: of PEASI and AS2."""
    if name in peasi_trainings.FILES:
        section, model, recipe = peasi_trainings.section(folder, name, body)
    else:
        sections = {"cascade": lambda: cascade(begin), "cosinet": lambda: cosinet(data), "hashing": hashing}
        section, model, recipe = sections[name]()

    learnt, dev = peasi_trainings.FILES.get(name, ("train", "dev"))
    more = [f"{folder}/reasons.parquet"] if name == "cascade" else []
    rate = RATE[name]
    if name == "cascade" and begin == "shipped" and questions == "train":
        learnt, rate = "recalled", SLOWER

    return TrainJob.model_validate(
        {
            section: model | {"store": "fp16"},
            "data": {
                "name": f"{NAME}; {reason_lists.NAME}" if more else NAME,
                "licence": f"{LICENCE}, {reason_lists.LICENCE}" if more else LICENCE,
                "train": [str(folder / f"{learnt}.parquet"), *more],
                "dev": [str(folder / f"{dev}.parquet")],
            },
            "train": recipe
            | {"epochs": EPOCHS[name], "learning_rate": rate, "metric": "MRR", "threads": threads},
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
            "precision": "auto",
            "clip": 1.0,
            "evaluate_every": EVALUATE,
        },
    )


def hashing() -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The section, its keys, and how it learns."""
    model = {
        "variant": "has",
        "encoder": ENCODER,
        "negatives": "hard",
        "drawn": DRAWN,
        "classifier_rate": 10.0,
    }
    model |= {"context": ["title", "sentence"]}
    recipe = {"schedule": "linear", "weight_decay": 0.01, "precision": "auto", "clip": 1.0}
    return "hashing", model | {"limit": LIMIT, "tokens": 2_000, "words": "source"}, recipe


def trained(
    folder: Path, name: str, data: Path, begin: str, questions: str, threads: int = 1
) -> dict[str, float | int | str]:
    """Train a model, or resume its training; its keys."""
    return ran(training(folder, name, data, begin, questions, threads), folder / name)


def ran(job: TrainJob, out: Path) -> dict[str, float | int | str]:
    """Train into `out`, or go on there; keys that begin with the folder's name."""
    began, name = time.perf_counter(), out.name
    for line in run(job, out):
        say(f"{name}: {line}")
    history = json.loads((out / HISTORY).read_text(encoding="utf-8"))
    return {
        f"{name}_dev_mrr": 100 * max(evaluation["dev"] for evaluation in history["evaluations"]),
        f"{name}_steps": history["step"],
        f"{name}_hours": (time.perf_counter() - began) / 3600,
    }


def averaged(former: Path, learnt: Path, out: Path) -> None:
    """Write a cascade with the mean of two others' weights, and the card of the one that learnt last."""
    (one, tokeniser), (two, _) = (load_cascade(folder, find_model) for folder in (former, learnt))
    others = two.state_dict()
    one.load_state_dict({name: (weight + others[name]) / 2 for name, weight in one.state_dict().items()})
    out.mkdir(parents=True, exist_ok=True)
    save(out, "cascade", one, tokeniser, StoredForm("fp16", word_source(learnt)))
    shutil.copy(learnt / HISTORY, out / HISTORY)
    card = (learnt / "README.md").read_text(encoding="utf-8")
    note = "\nIts weights are the mean of those that this training wrote and of those that it began with.\n"
    write_text(out / "README.md", card.replace("\n", f"\n{note}", 1))


def write_lists(lists: Sequence[Sequence[LabelledCandidate]], file: Path) -> None:
    pq.write_table(LabelledCandidate.table([row for rows in lists for row in rows]), file)


def recalled(folder: Path) -> list[list[LabelledCandidate]]:
    """Lists of RECALLED questions of train.parquet, drawn by hash."""
    lists = list(by_question(read_dataset(folder / "train.parquet")))
    chosen = set(drawn((rows[0].question_id for rows in lists), RECALLED))
    return [rows for rows in lists if rows[0].question_id in chosen]


def prepare(
    data: Path, work: Path, names: Sequence[str], questions: str, number: int | None = None
) -> dict[str, float | int | str]:
    """Write the lists that these models learn from, of `number` questions of a set of `draw`; the lists'
    keys."""
    asked = draw.questions(data, questions)
    chosen = set(drawn((question.question_id for question in asked), number or len(asked)))
    asked = [question for question in asked if question.question_id in chosen]
    result = train_lists.written(data, work, asked)

    if "cascade" in names:
        reasons = reason_lists.reason_lists(data)
        write_lists(reasons, work / "train/reasons.parquet")
        result |= {"reasons_questions": len(reasons), "reasons_sentences": sum(map(len, reasons))}
        if questions == "train":
            write_lists(recalled(work / "train"), work / "train/recalled.parquet")

    if not peasi_trainings.FILES.keys().isdisjoint(names):
        peasi_trainings.prepare(data, work, asked)
    return result


def main() -> None:
    options = arguments(
        "trainings",
        __doc__ or "",
        paths={"work": "folder that keeps lists and checkpoints; out/long_lists"},
        numbers={
            "questions": "of the set, drawn by hash; all of them if absent",
            "threads": "of PyTorch, which round in another way where they are others; 1 if absent",
        },
        choices={"model": ("all", LISTS, *EPOCHS), "begin": BEGINNINGS, "set": SETS},
    )
    if options.smoke:
        shrink(globals(), ENCODER=small_encoder(), EXITS=[2, 6], TOKENS=1_500, NEGATIVES=2)
        options.begin, options.set = "encoder", "dev"
        train_lists.small_lists()
        shrink(vars(reason_lists), SOURCES=dict.fromkeys(reason_lists.SOURCES, 4))
        for name in ("mtl0", "mtl1", "as2_context"):  # parts of what others try
            del EPOCHS[name]

    torch.set_num_threads(1)
    data = options.data.resolve()

    with work_folder(options, "long_lists") as work:
        names = [name for name in EPOCHS if options.model in ("all", name)]
        result = prepare(
            data, work, names, options.set, int(options.questions) if options.questions else None
        )
        for name in names:
            result |= trained(
                work / "train", name, data, options.begin, options.set, int(options.threads or 1)
            )
            if name == "cascade" and options.begin == "shipped":
                averaged(SHIPPED / "cascade", work / "train/cascade", work / "train/cascade-mean")

    finish("trainings", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
