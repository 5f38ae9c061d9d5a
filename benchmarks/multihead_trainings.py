"""What `benchmarks.multihead_quality` trains: teachers, the table of their logits, and students; and on which questions."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch

from benchmarks.cascade_quality import SQUAD, WIKIQA, questions, some
from benchmarks.harness import say
from indexing.shards.dense import DEFAULT
from pipelines.config.job_file import Job
from pipelines.config.training_file import TrainJob
from pipelines.convert.as_run import write_candidates
from pipelines.steps.chain import run_steps
from pipelines.train.train import run
from schemas.labels import LabelledCandidate

FIRST = 0
SEEDS: tuple[int, ...] = (FIRST, 1, 2)  # of the students
SIZES: tuple[int, ...] = (6, 4, 3)  # their layers
TRANSFER, DEV_QUESTIONS, QUESTIONS = 1_500, 150, 300
EPOCHS, ALPHA, TAU = 1, 0.5, 3.0
TRANSFER_RATE, ADAPT_RATE = 1e-4, 5e-5
HEAD_LAYERS = (2, 3)
EXITS = (2, 3, 4, 5)
TEACHERS, HYDRA = ("t6", "t4", "t3"), ("h0", "h1", "h2")
STRATEGIES = {"kd_sum": "sum", "kd_rr": "round_robin", "mhs": "mhs"}
ENCODER, PROCESSES = DEFAULT, 2

Questions = list[list[LabelledCandidate]]


def prepare(data: Path, work: Path) -> None:
    """squad-train, squad-dev, squad, wikiqa-dev, wikiqa; and the training sets of each of TEACHERS."""
    if (work / "wikiqa.parquet").is_file():
        return
    train = questions(data / "squad/squad-sent-train.parquet", TRANSFER)
    adapt = questions(data / "wikiqa/wikiqa-train.parquet")
    sets: dict[str, Questions] = {"squad-train": train, "wikiqa-train": adapt}
    for n, name in enumerate(TEACHERS):
        sets |= {f"squad-train-{name}": without_some(train, n), f"wikiqa-train-{name}": without_some(adapt, n)}
    sets["squad-dev"] = questions(data / "squad/squad-sent-dev.parquet", DEV_QUESTIONS)
    sets["squad"] = some(questions(data / "squad/squad-sent-test.parquet"), QUESTIONS)
    sets["wikiqa-dev"] = questions(data / "wikiqa/wikiqa-dev.parquet")
    sets["wikiqa"] = questions(data / "wikiqa/wikiqa-test.parquet")
    for name, lists in sets.items():
        pq.write_table(LabelledCandidate.table([row for rows in lists for row in rows]), work / f"{name}.parquet")


def without_some(asked: Questions, third: int) -> Questions:
    """Without one of three thirds of the wrong candidates, chosen by hash."""
    kept = ([row for row in rows if row.label or digest(row) % 3 != third] for rows in asked)
    return [[replace(row, position=n) for n, row in enumerate(rows)] for rows in kept]


def digest(row: LabelledCandidate) -> int:
    return hashlib.sha256(f"{row.question_id}:{row.candidate_id}".encode()).digest()[0]


class Training(NamedTuple):
    """`data`: the name of the data set, of which there is also a dev set."""

    name: str
    data: str
    section: dict[str, Any]
    seed: int = 0
    distil: dict[str, Any] | None = None


def training(work: Path, wanted: Training) -> TrainJob:
    transfer = wanted.data.startswith("squad")
    common = {"tokens": 1_000, "classifier_rate": 10.0 if transfer else 5.0, "words": "source", "store": "fp16"}
    dev = work / ("squad-dev.parquet" if transfer else "wikiqa-dev.parquet")
    job: dict[str, Any] = {
        "transformer": {**common, **wanted.section},
        "data": {**(SQUAD if transfer else WIKIQA), "train": [str(work / f"{wanted.data}.parquet")], "dev": [str(dev)]},
        "train": {
            "epochs": 1 if transfer else EPOCHS,
            "learning_rate": TRANSFER_RATE if transfer else ADAPT_RATE,
            "schedule": "linear",
            "precision": "bf16",
            "clip": 1.0,
            "seed": wanted.seed,
        },
    }
    if wanted.distil:
        job["distil"] = {"tables": [str(work / "table")], "alpha": ALPHA, "tau": TAU, **wanted.distil}
    return TrainJob.model_validate(job)


def train(work: Path, wanted: Training) -> str:
    torch.set_num_threads(1)
    *_, last = run(training(work, wanted), work / wanted.name)
    return f"{wanted.name}: {last}"


def transfers() -> Iterator[Training]:
    plain = {"reranker": "pointwise", "encoder": ENCODER}
    for n, name in enumerate(TEACHERS):
        layers = {"layers": int(name[1])} if name != "t6" else {}
        yield Training(f"{name}-transfer", f"squad-train-{name}", {**plain, **layers}, 10 + n)
    for n, name in enumerate(HYDRA):
        yield Training(f"{name}-transfer", "squad-train", plain, n)


def adapts(work: Path) -> Iterator[Training]:
    for n, name in enumerate((*TEACHERS, *HYDRA)):
        data = f"wikiqa-train-{name}" if name in TEACHERS else "wikiqa-train"
        yield Training(name, data, {"reranker": "pointwise", "encoder": str(work / f"{name}-transfer")}, n % 3)


def table(work: Path) -> None:
    """All teachers' logits of WikiQA's training set."""
    write_candidates([work / "wikiqa-train.parquet"], work / "table")
    stages = [{"reranker": "pointwise", "name": name, "checkpoint": str(work / name)} for name in (*TEACHERS, *HYDRA)]
    job = Job.model_validate({"rerank": {"stages": stages}, "workers": {"processes": PROCESSES}})
    for line in run_steps(job, work / "table", ["rerank"], ()):
        say(line)


def students(work: Path, best: str) -> Iterator[Training]:
    """Named <model>[_<layers>]-<seed>; they begin with a transfer of their size."""
    all_three: dict[str, Any] = {"teachers": list(TEACHERS), "strategy": "mhs"}
    for seed, size in itertools.product(SEEDS, SIZES):
        end = f"{'' if size == 6 else f'_{size}'}-{seed}"
        begun = {"encoder": str(work / ("h0-transfer" if size == 6 else f"t{size}-transfer"))}
        plain, heads = {"reranker": "pointwise", **begun}, {"reranker": "multihead", **begun}
        yield Training(f"alone{end}", "wikiqa-train", plain, seed)
        for teacher in TEACHERS if size == 6 else (best,):
            taught = {"teachers": [teacher], "strategy": "single"}
            yield Training(f"kd_{teacher}{end}", "wikiqa-train", plain, seed, taught)
        for name, strategy in STRATEGIES.items():
            taught = all_three | {"strategy": strategy}
            yield Training(f"{name}{end}", "wikiqa-train", heads if name == "mhs" else plain, seed, taught)
        if size == 6:
            yield Training(f"hydra{end}", "wikiqa-train", heads, seed, {"teachers": list(HYDRA), "strategy": "mhs"})
        if size == 6 and seed == FIRST:
            single = {"teachers": [best], "strategy": "single"}
            yield Training(f"mhs_none{end}", "wikiqa-train", heads, seed)
            yield Training(f"mhs_single{end}", "wikiqa-train", heads, seed, single)
            for layers in HEAD_LAYERS:
                split = heads | {"head_layers": layers}
                yield Training(f"mhs_b{size - layers}{end}", "wikiqa-train", split, seed, all_three)
            yield Training(f"ct{end}", "wikiqa-train", {"reranker": "cascade", "exits": [*EXITS, 6], **begun}, seed)


def pruned(work: Path) -> Training:
    begun = {"reranker": "multihead", "encoder": str(work / f"ct-{FIRST}")}
    return Training(f"ct_mhs-{FIRST}", "wikiqa-train", begun, FIRST, {"teachers": list(TEACHERS), "strategy": "mhs"})
