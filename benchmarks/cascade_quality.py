"""The Cascade Transformer beside what it is compared with, in the form of its Tables 2 and 3, on MiniLM-L6 as the body.

Models: the cascade (CT, exits after layers 2 to 6) and the cuts to 2, 3, 4, 5 and 6 layers, each trained on its own (MT); the
sequential ranker (SR) is those in a row. Each is fine-tuned on SQuAD-sent (2 epochs), and from there on WikiQA (3 epochs):
TANDA's transfer and adapt. Trainings are `answermill train`'s and stand in --work, one folder each; what is complete there is
not repeated, what was stopped goes on. A cascade's or SR's row at a share α is replayed from one pass (`ranking/replay.py`).

Test sets: WikiQA (adapted models), SQuAD-sent and SelQA (transferred ones, the first QUESTIONS answerable questions of each).
Metrics in percent, protocol `answerable`. `cost` is layers × candidates relative to the six layers' (with whole candidates, so
it depends on the lists' lengths), `seconds` what the pass over the test set took on one core, all exits included.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.harness import arguments, finish, say
from indexing.dense import find_model
from pipelines.datasets import read_dataset
from pipelines.scores import by_question
from pipelines.train import TrainJob, run
from ranking.cascade import Cascade, load
from ranking.exits import ExitScores
from ranking.lists import ranked_list
from ranking.metrics import METRICS
from ranking.replay import Replayed, replay
from ranking.reranker import Resources
from ranking.schedule import relative_cost
from schemas.labels import LabelledCandidate

DEPTH = 6
EXITS = (2, 3, 4, 5, 6)
ALPHAS = (0.3, 0.4, 0.5)
PROCESSES, QUESTIONS, DEV_QUESTIONS = 2, 1_000, 400
TESTS = {"wikiqa": "wikiqa/wikiqa-test.parquet", "squad": "squad/squad-sent-test.parquet", "selqa": "selqa/selqa-test.parquet"}
MODELS = ("cascade", *(f"mt{depth}" for depth in reversed(EXITS)))


def training(data: Path, work: Path, name: str, adapt: bool) -> TrainJob:
    """The transfer of a model, or its adapt, which begins with the transfer's checkpoint."""
    body: dict[str, Any] = {"reranker": "cascade", "exits": list(EXITS)} if name == "cascade" else {"reranker": "pointwise"}
    if adapt:
        body = {"reranker": body["reranker"], "encoder": str(work / f"{name}-transfer")}
    elif name != "cascade":
        body["layers"] = int(name.removeprefix("mt"))
    sets = ("wikiqa/wikiqa-train.parquet", "wikiqa/wikiqa-dev.parquet") if adapt else ("squad/squad-sent-train.parquet", "")
    dev = str(data / sets[1]) if adapt else str(work / "squad-sent-dev.parquet")
    return TrainJob.model_validate(
        {
            "transformer": {**body, "words": "source", "store": "fp16"},
            "data": {"name": "a benchmark's", "licence": "see the data", "train": [str(data / sets[0])], "dev": [dev]},
            "train": {
                "epochs": 3 if adapt else 2,
                "learning_rate": 2e-5 if adapt else 5e-5,
                "schedule": "linear",
                "precision": "bf16",
                "clip": 1.0,
                "evaluate_every": 0 if adapt else 250,
            },
        }
    )


def train(data: Path, work: Path, name: str) -> str:
    """Transfer and adapt, or what of them is still to be done; the last lines."""
    torch.set_num_threads(1)
    told = []
    for adapt in (False, True):
        began = time.perf_counter()
        *_, last = run(training(data, work, name, adapt), work / f"{name}-{'adapt' if adapt else 'transfer'}")
        told.append(f"{last} ({time.perf_counter() - began:,.0f} s)")
    return f"{name}: " + "; ".join(told)


def small_dev(data: Path, work: Path) -> None:
    """SQuAD-sent's first dev questions, which are enough to choose a checkpoint by."""
    rows = [row for rows in questions(data / "squad/squad-sent-dev.parquet", DEV_QUESTIONS) for row in rows]
    work.mkdir(parents=True, exist_ok=True)
    pq.write_table(LabelledCandidate.table(rows), work / "squad-sent-dev.parquet")


def questions(path: Path, most: int | None = None) -> list[list[LabelledCandidate]]:
    """The first answerable questions."""
    found = [rows for rows in by_question(read_dataset(path)) if any(row.label for row in rows)]
    return found[:most]


def scored(data: Path, work: Path, name: str, test: str) -> tuple[ExitScores, float]:
    """A model's scores at each of its exits on a test set, and the seconds that took."""
    torch.set_num_threads(1)
    rows = questions(data / TESTS[test], None if test == "wikiqa" else QUESTIONS)
    kind = "cascade" if name == "cascade" else "pointwise"
    folder = work / f"{name}-{'adapt' if test == 'wikiqa' else 'transfer'}"
    made = Cascade(*load(folder, kind, Resources(None, lambda: None, find_model)))  # type: ignore[arg-type, return-value]
    began = time.perf_counter()
    found = made.exit_scores([ranked_list(each) for each in rows])
    taken = time.perf_counter() - began
    labels = [[row.label for row in each] for each in rows]
    return ExitScores.of(made.exits, DEPTH, [each[0].question_id for each in rows], labels, found), taken


def told(test: str, name: str, replayed: Replayed, n: int, cost: float) -> Iterator[tuple[str, float]]:
    for metric in METRICS:
        yield f"{test}_{metric.lower().replace('@', '')}_{name}", 100 * float(replayed.metrics[metric][n])
    yield f"{test}_cost_{name}", cost


def rows_of(test: str, tables: dict[str, ExitScores]) -> Iterator[tuple[str, float]]:
    """The rows of one test set: MT cuts, SR and CT at each α, CT at each exit without dropping."""
    none = (0.0,) * (len(EXITS) - 1)
    uniform = [(alpha,) * (len(EXITS) - 1) for alpha in ALPHAS]
    for depth in EXITS:
        name = "monolithic" if depth == DEPTH else f"mt{depth}"
        yield from told(test, name, replay(tables[f"mt{depth}"], [()]), 0, depth / DEPTH)
    cascade = tables["cascade"]
    for column, depth in enumerate(EXITS[:-1]):
        cut = replace(cascade, exits=(depth,), scores=cascade.scores[:, [column]])
        yield from told(test, f"cascade_exit{depth}", replay(cut, [()]), 0, depth / DEPTH)
    made = replay(cascade, [none, *uniform])
    for n, alpha in enumerate((0, *ALPHAS)):
        yield from told(test, f"cascade_a{10 * alpha:.0f}", made, n, float(made.cost[n]))
    together = replace(cascade, scores=np.concatenate([tables[f"mt{depth}"].scores for depth in EXITS], axis=1))
    in_a_row = replay(together, uniform)
    for n, (alpha, drops) in enumerate(zip(ALPHAS, uniform, strict=True)):
        yield from told(test, f"sequential_a{10 * alpha:.0f}", in_a_row, n, relative_cost(EXITS, drops, DEPTH, shared=False))


def main() -> None:
    given = arguments(
        "cascade_quality", __doc__ or "", paths={"work": "folder of the trainings, which stay; out/cascade_quality"}
    )
    data, work = given.data.resolve(), (given.work or Path("out/cascade_quality")).resolve()
    small_dev(data, work)
    result: dict[str, float | int | str] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context) as pool:
        jobs = [pool.submit(train, data, work, name) for name in MODELS]
        for job in jobs:
            say(job.result())
    with ProcessPoolExecutor(PROCESSES, context) as pool:
        passes = {(test, name): pool.submit(scored, data, work, name, test) for test in TESTS for name in MODELS}
        for test in TESTS:
            tables: dict[str, ExitScores] = {}
            for name in MODELS:
                tables[name], result[f"{test}_seconds_{name}"] = passes[test, name].result()
            result[f"{test}_questions"] = len(tables["cascade"].question_ids)
            for key, value in rows_of(test, tables):
                result[key] = value
            shown = ("monolithic", "cascade_a0", "cascade_a3", "sequential_a3")
            say(f"{test}: " + ", ".join(f"{name} MAP {result[f'{test}_map_{name}']:.2f}" for name in shown))
    result["cost_a3"] = relative_cost(EXITS, (0.3,) * (len(EXITS) - 1), DEPTH)
    finish("cascade_quality", result, given.save)


if __name__ == "__main__":
    main()
