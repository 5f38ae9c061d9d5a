"""A teacher of 12 layers, its scores, and cascades that learn from them: one command for each step, on a card
or not.

    python -m experiments.teaching --step teacher
    python -m experiments.teaching --step scores
    python -m experiments.teaching --step student                # six layers, as the default plan's cascade
    python -m experiments.teaching --step student --body base    # 12 layers: the teacher with exits

The lists are those of `experiments.trainings`, built in --work: L-train's, or with --set more L-more's, and
those of `experiments.reason_lists`. The teacher is all-mpnet-base-v2 as `pointwise`: it learns a right
sentence against NEGATIVES drawn wrong ones. Its scores of every candidate are WORK/train/scores, a Parquet
for each PIECE questions. A student learns at all its exits, from the labels and the teacher's probabilities;
the base one begins with the teacher. Trainings are those of `answermill train` and stand in
WORK/train/teacher, /student and /student_base; the dev score is the MRR of L-dev's best sentences.

A step that was stopped goes on where it was, and one that is complete says so. Keys: `NAME_dev_mrr` in
percent, `NAME_steps`, `NAME_hours` of this process; of the scores `questions`, `candidates`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from answermill.files.atomic_files import replacing
from answermill.indexing.shards.dense import DEFAULT
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import by_question, read_dataset
from experiments import reason_lists, train_lists, trainings
from experiments.exit_rows import exit_scores
from experiments.question_sets.learnable import Questions
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_encoder

TAKES = "days; on a graphics card minutes for each step"
DECIDED = "Nothing yet: the teacher and the cascades that ship learnt with scripts apart from this package."

STEPS, BODIES = ("teacher", "scores", "student"), ("default", "base")
TEACHER, STUDENT = "all-mpnet-base-v2", DEFAULT
EXITS = {"default": [2, 3, 4, 5, 6], "base": [4, 6, 8, 10, 12]}
CONTEXT = ["sentence", "title", "previous", "next"]
NEGATIVES, LIMIT, TOKENS, PIECE = 10, 352, 49_152, 500
RATES = {"teacher": 2e-5, "student": 1e-4, "student_base": 2e-5}
EPOCHS = {"teacher": 1, "student": 2, "student_base": 2}
LABELS = {"student": 0.2, "student_base": 0.5}
"""Weight of the labels beside the teacher: alpha of [distil]."""


def lists_in(folder: Path) -> list[Path]:
    """Files of the lists to learn from, as `experiments.trainings` wrote them."""
    return [folder / "train.parquet", folder / "reasons.parquet"]


def job(folder: Path, name: str) -> TrainJob:
    """The training of the teacher or of a student."""
    model: dict[str, Any] = {
        "context": CONTEXT,
        "context_dropout": 0.3,
        "loss": "softmax",
        "bce_weight": 0.3,
        "negatives": NEGATIVES,
        "limit": LIMIT,
        "tokens": TOKENS,
        "words": "source",
        "store": "fp16",
        "classifier_rate": 5.0,
    }
    tables: dict[str, Any] = {}
    if name == "teacher":
        model |= {"reranker": "pointwise", "encoder": TEACHER}
    else:
        body = "base" if name.endswith("base") else "default"
        encoder = str(folder / "teacher") if body == "base" else STUDENT
        model |= {"reranker": "cascade", "encoder": encoder, "exits": EXITS[body], "sampling": "all"}
        distil = {"teachers": ["teacher"], "strategy": "single", "alpha": LABELS[name]}
        tables = {"distil": distil | {"tables": [str(file) for file in sorted(scored(folder))]}}

    learnt = {
        "name": f"{trainings.NAME}; {reason_lists.NAME}",
        "licence": f"{trainings.LICENCE}, {reason_lists.LICENCE}",
        "train": [str(file) for file in lists_in(folder)],
        "dev": [str(folder / "dev.parquet")],
    }
    train = {
        "epochs": EPOCHS[name],
        "learning_rate": RATES[name],
        "schedule": "linear",
        "warm_up": 0.06,
        "weight_decay": 0.01,
        "clip": 1.0,
        "precision": "auto",
        "metric": "MRR",
    }
    return TrainJob.model_validate({"transformer": model, "data": learnt, "train": train, **tables})


def scored(folder: Path) -> list[Path]:
    """Files of the teacher's scores. Raises SystemExit if there are none."""
    files = list((folder / "scores").glob("*.parquet"))
    if not files:
        raise SystemExit(f"experiments.teaching: no scores in {folder}/scores; first --step scores")
    return files


def pieces(folder: Path) -> Iterator[tuple[Path, Questions]]:
    """(file of their scores, questions) of each piece."""
    questions = [rows for file in lists_in(folder) for rows in by_question(read_dataset(file))]
    for number, first in enumerate(range(0, len(questions), PIECE)):
        yield folder / f"scores/{number:04}.parquet", questions[first : first + PIECE]


def score(folder: Path) -> dict[str, float | int | str]:
    """Write the teacher's logits of each candidate; pieces that are there stay."""
    if not (folder / "teacher/training.json").is_file():
        raise SystemExit(f"experiments.teaching: no teacher in {folder}/teacher; first --step teacher")
    (folder / "scores").mkdir(exist_ok=True)
    result: dict[str, float | int | str] = {"questions": 0, "candidates": 0}
    for file, questions in pieces(folder):
        rows = [row for group in questions for row in group]
        if not file.is_file():
            logits = exit_scores(folder / "teacher", questions).scores[:, -1]
            ids = {key: [getattr(row, key) for row in rows] for key in ("question_id", "candidate_id")}
            with replacing(file) as unfinished:
                pq.write_table(pa.table(ids | {"teacher": logits}), unfinished)
            say(f"{file.name}: {len(questions)} questions")
        result["questions"] = int(result["questions"]) + len(questions)
        result["candidates"] = int(result["candidates"]) + len(rows)
    return result


def main() -> None:
    options = arguments(
        "teaching",
        __doc__ or "",
        paths={"work": "folder that keeps lists, scores and checkpoints; out/long_lists"},
        numbers={"questions": "of L-train, drawn by hash; all of them if absent"},
        choices={"step": STEPS, "body": BODIES, "set": trainings.SETS},
    )
    steps = [options.step if options.step != "student" or options.body == "default" else "student_base"]
    if options.smoke:
        shrink(
            globals(), TEACHER=small_encoder(), STUDENT=small_encoder(), TOKENS=1_500, NEGATIVES=2, LIMIT=128
        )
        shrink(globals(), EXITS={"default": [2, 6], "base": [4, 6]}, PIECE=3)
        train_lists.small_lists()
        shrink(vars(reason_lists), SOURCES=dict.fromkeys(reason_lists.SOURCES, 4))
        options.set, steps = "dev", ["teacher", "scores", "student", "student_base"]

    torch.set_num_threads(1)
    with work_folder(options, "long_lists") as work:
        number = int(options.questions) if options.questions else None
        result = trainings.prepare(options.data.resolve(), work, ["cascade"], options.set, number)
        for step in steps:
            result |= (
                score(work / "train")
                if step == "scores"
                else trainings.ran(job(work / "train", step), work / "train" / step)
            )
    finish("teaching", result, options.save)


if __name__ == "__main__":
    main()
