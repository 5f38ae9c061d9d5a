"""Trainings of `experiments.multihead_quality`: teachers, the table of their logits, and students.

Teachers differ in kind: `cross`, the monolithic cross-encoder of `cascade_trainings.py`; `has`, HAS of
`hashing_quality`, which encodes question and answer apart; `birnn`, Cosinet BiRNN, which reads word vectors
and all candidates of a question in their order. `cross1` and `cross2` are `cross` with other seeds, for
Hydra. Their scores become logits by Platt's regression on WikiQA's dev set. With one --work for both
commands, `cross` is trained once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing, write_text
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.steps.models import device_of
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.arrays import Floats
from experiments import cascade_trainings, hashing_quality
from experiments.cascade_trainings import DEPTH, EXITS
from experiments.question_sets.learnable import Questions, answered
from testing.harness import print_results

FIRST = 0
SEEDS: tuple[int, ...] = (FIRST, 1, 2)  # of the students
ALPHAS: tuple[float, ...] = (0.0, 0.1, 0.5, 0.9)
TAUS: tuple[float, ...] = (1.0, 3.0, 5.0)
"""The paper's grid (§3.2)."""
EPOCHS, RATE = 2, 5e-5
HEAD_LAYERS = (2, 3)
TEACHERS, HYDRA = ("cross", "has", "birnn"), ("cross", "cross1", "cross2")
ALL = tuple(dict.fromkeys((*TEACHERS, *HYDRA)))
TRANSFER, TABLE = f"mt{DEPTH}-transfer", "teachers.parquet"
AFTER_CT = f"ct_mhs-{FIRST}"
"""Name of the one training of `parts` that begins with another one."""


class Lesson(NamedTuple):
    """Weight of the labels, and temperature, of Eq. 1."""

    alpha: float
    tau: float


class Training(NamedTuple):
    """A training by its name. `section`: keys of [transformer]; its `encoder`, if any, names an earlier
    training. `data`: set whose lists and teachers it learns from, a key of `hashing_quality.DATA`."""

    name: str
    section: dict[str, Any]
    seed: int = FIRST
    distil: dict[str, Any] | None = None
    data: str = "wikiqa"


def data_of(work: Path, name: str) -> dict[str, Any]:
    files = {"train": [str(work / f"{name}-train.parquet")], "dev": [str(work / f"{name}-dev.parquet")]}
    return {**hashing_quality.DATA[name], **files}


def table_of(work: Path, name: str) -> Path:
    """Table of the teachers' logits of a set's training candidates."""
    return work / (TABLE if name == "wikiqa" else f"{name}-{TABLE}")


def folder_of(work: Path, teacher: str) -> Path:
    """Folder of a teacher's checkpoint."""
    if teacher.startswith("cross"):
        return work / f"mt{DEPTH}-{teacher.removeprefix('cross') or FIRST}"
    return work / teacher


def train_teachers(data: Path, work: Path, pool: Executor) -> None:
    cascade_trainings.prepare(data, work)
    transfer = next(training for training in cascade_trainings.transfers() if training.name == TRANSFER)
    adapts = [
        training
        for seed in range(len(HYDRA))
        for training in cascade_trainings.adapts(seed)
        if training.begins == TRANSFER and training.section["reranker"] == "pointwise"
    ]
    others = [
        pool.submit(train_other, data, work, name, "wikiqa", work / name)
        for name in TEACHERS
        if not name.startswith("cross")
    ]
    print_results([pool.submit(cascade_trainings.train, work, transfer), *others])
    print_results(pool.submit(cascade_trainings.train, work, training) for training in adapts)


def train_other(data: Path, work: Path, teacher: str, name: str, folder: Path) -> str:
    """Train HAS or Cosinet BiRNN on a set's lists in `work`."""
    if teacher == "has":
        has = hashing_quality.training(data, work, hashing_quality.Run(name, "has", FIRST))
        return cascade_trainings.train_in(folder, has)

    vocabulary = [str(work / f"{name}-dev.parquet"), str(data / hashing_quality.SETS[name].test)]
    section = {"reranker": "cosinet", "form": "birnn", "vocabulary": vocabulary, "vectors": "source"}
    recipe = {"epochs": 3, "batch": 4, "precision": "auto"}
    cosinet = TrainJob.model_validate({"model": section, "data": data_of(work, name), "train": recipe})
    return cascade_trainings.train_in(folder, cosinet)


def scores(checkpoint: Path, lists: Questions, **settings: Any) -> Floats:
    """[n]: scores of all candidates by a model, a question's one after the other. `settings`: keys of its
    stage."""
    ranker = load_reranker(
        kind_of(checkpoint), checkpoint, model=find_model, device=device_of("auto"), **settings
    )
    ranked = ranker.rerank([ranked_list(rows) for rows in lists])
    known = [{c.candidate_id: c.score for c in result.candidates} for result in ranked]
    return np.array(
        [scores[row.candidate_id] for rows, scores in zip(lists, known, strict=True) for row in rows]
    )


def logits(work: Path, teacher: str, lists: Questions) -> Floats:
    """[n]: scores of a teacher as logits, by Platt's regression on WikiQA's dev set."""
    file = work / f"{teacher}-platt.json"
    if not file.is_file():
        dev = answered(work / "wikiqa-dev.parquet")
        write_text(file, json.dumps(asdict(platt(scores(folder_of(work, teacher), dev), dev))))
    fitted = Calibration(**json.loads(file.read_text(encoding="utf-8")))
    return as_logits(scores(folder_of(work, teacher), lists), fitted)


def platt(dev_scores: Floats, dev: Questions) -> Calibration:
    """Regression of the labels on scores [n] of all candidates."""
    return Calibration.fit(dev_scores[:, None], np.array([row.label for rows in dev for row in rows]))


def as_logits(of_model: Floats, fitted: Calibration) -> Floats:
    return of_model * fitted.weights[0] + fitted.bias


def write_table(work: Path) -> None:
    """Write the teachers' logits of WikiQA's training set."""
    if not (work / TABLE).is_file():
        lists = answered(work / "wikiqa-train.parquet")
        write_logits(work / TABLE, lists, {name: logits(work, name, lists) for name in ALL})


def write_logits(file: Path, lists: Questions, columns: Mapping[str, Floats]) -> None:
    """Write a table of [distil]: a row for each candidate, and a column of logits [n] for each teacher."""
    ids = {
        name: [getattr(row, name) for rows in lists for row in rows]
        for name in ("question_id", "candidate_id")
    }
    with replacing(file) as temporary:
        pq.write_table(pa.table({**ids, **columns}), temporary)


def training(work: Path, wanted: Training) -> TrainJob:
    section = {"tokens": 2_000, "classifier_rate": 5.0, "words": "source", "store": "fp16", "negatives": 5}
    encoder = str(work / wanted.section.get("encoder", TRANSFER))
    recipe = {"epochs": EPOCHS, "learning_rate": RATE, "schedule": "linear", "precision": "auto", "clip": 1.0}
    job: dict[str, Any] = {
        "transformer": {**section, **wanted.section, "encoder": encoder},
        "data": data_of(work, wanted.data),
        "train": {**recipe, "seed": wanted.seed},
    }
    if wanted.distil:
        job["distil"] = {"tables": [str(table_of(work, wanted.data))], **wanted.distil}
    return TrainJob.model_validate(job)


def train(work: Path, wanted: Training) -> str:
    return cascade_trainings.train_in(work / wanted.name, training(work, wanted))


def student(name: str, seed: int, lesson: Lesson) -> Training:
    """A student that learns from teachers: `kd_<teacher>`, `kd_sum`, `kd_rr`, `mhs` or `hydra`."""
    single = name.removeprefix("kd_")
    teachers = HYDRA if name == "hydra" else (single,) if single in TEACHERS else TEACHERS
    strategy = {"kd_sum": "sum", "kd_rr": "round_robin", "mhs": "mhs", "hydra": "mhs"}.get(name, "single")
    section = {"reranker": "multihead" if strategy == "mhs" else "pointwise"}
    taught = {"teachers": list(teachers), "strategy": strategy, "alpha": lesson.alpha, "tau": lesson.tau}
    return Training(f"{name}-{lesson.alpha:g}-{lesson.tau:g}-{seed}", section, seed, taught)


def alone(seed: int) -> Training:
    """A student without a teacher."""
    return Training(f"alone-{seed}", {"reranker": "pointwise"}, seed)


def parts(lesson: Lesson, best: str) -> Iterator[Training]:
    """Trainings of the first seed alone: heads without a teacher, all with the best; longer heads; a cascade,
    and heads behind its exits."""
    heads = {"reranker": "multihead"}
    taught = student("mhs", FIRST, lesson).distil
    yield Training("mhs_none-0", heads)
    yield Training("mhs_single-0", heads, distil=student(f"kd_{best}", FIRST, lesson).distil)
    for layers in HEAD_LAYERS:
        yield Training(f"mhs_b{DEPTH - layers}-0", heads | {"head_layers": layers}, distil=taught)
    yield Training("ct-0", {"reranker": "cascade", "exits": list(EXITS), "sampling": "all"})
    yield Training(AFTER_CT, heads | {"encoder": "ct-0"}, distil=taught)
