"""The Cascade Transformer beside what it is compared with, in the form of its Tables 2 and 3, on MiniLM-L6 as the body.

Models: the cuts to 2, 4 and 6 layers, each trained on its own (MT), of which the sequential ranker (SR) is made; and the
cascade (CT, exits after layers 2 to 6), which begins with the body and classifier of MT's transferred 6 layers: from the plain
body it learnt too little of so little data. Each is fine-tuned on SQuAD-sent (1 epoch), and from there on WikiQA (4 epochs):
TANDA's transfer and adapt. New classifiers learn ten times as fast as the body, in the adapt five times. A cascade's
checkpoint is the one that is best on dev at α = .3.

Chosen in a few trials of the cascade that no command repeats: its rates, epochs and beginning by the dev sets, the step's
size by the training loss of the first quarter, where dev told no difference.

Trainings are those of `answermill train` and stand in --work, one folder each; what is complete there is not repeated, what was
stopped goes on. A cascade's or SR's row at a share α is replayed from one pass (`ranking/cascade/replay.py`).

Test sets: WikiQA (adapted models); with the transferred ones QUESTIONS answerable questions of SQuAD-sent and of SelQA, drawn
by hash, and `long`: WikiQA's questions with 100 to 400 candidates each, sentences of passages that BM25 finds in `corpus-wiki`.
Metrics in percent, protocol `answerable`. `cost` is layers × candidates relative to the six layers' (with whole candidates, so
it depends on the lists' lengths). `seconds` are of a processor, one thread, from text to scores, two processes at work.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.first_stage import job
from benchmarks.harness import arguments, finish, processes, say, shrink, tell, trained_by, work_folder
from benchmarks.question_sets.gold import drawn
from benchmarks.smoke_data import small_encoder
from indexing.shards.dense import DEFAULT, find_model
from pipelines.config.training_file import TrainJob
from pipelines.datasets import by_question, read_dataset
from pipelines.steps.models import device_of
from pipelines.train.train import run
from ranking.cascade.cascade import Cascade
from ranking.cascade.cascade_model import load
from ranking.cascade.exits import ExitScores
from ranking.cascade.replay import Replayed, replay
from ranking.cascade.schedule import relative_cost
from ranking.cascade.sequential import Sequential
from ranking.evaluation.metrics import METRICS
from ranking.lists import ranked_list
from schemas.labels import LabelledCandidate

ENCODER, DEPTH, ADAPT_EPOCHS = DEFAULT, 6, 4
TRANSFER_RATE, CASCADE_RATE, ADAPT_RATE = 1e-4, 5e-5, 5e-5
EXITS, CUTS = (2, 3, 4, 5, 6), (2, 4, 6)
ALPHAS = (0.3, 0.4, 0.5)
QUESTIONS, DEV_QUESTIONS = 600, 400
TESTS = {"wikiqa": "wikiqa/wikiqa-test.parquet", "squad": "squad/squad-sent-test.parquet", "selqa": "selqa/selqa-test.parquet"}
LONG, LONG_DEPTH, LONG_QUESTIONS = range(100, 401), 45, 60
SQUAD = {
    "name": "SQuAD-sent, of SQuADShifts' new Wikipedia paragraphs (Miller et al. 2020); "
    f"dev set: {DEV_QUESTIONS} questions of SQuAD v1.1 dev (Rajpurkar et al. 2016)",
    "licence": "CC BY-SA 4.0",
}
WIKIQA = {"name": "WikiQA (Yang et al. 2015), after SQuAD-sent", "licence": "Microsoft Research Data License"}
MODELS = ("cascade", *(f"mt{depth}" for depth in reversed(CUTS)))


def training(data: Path, work: Path, name: str, adapt: bool) -> TrainJob:
    """The transfer of a model, or its adapt, which begins with the transfer's checkpoint."""
    body: dict[str, Any] = {"reranker": "pointwise", "encoder": ENCODER}
    if name == "cascade":
        body = {"reranker": "cascade", "drop": [ALPHAS[0]]}
    if adapt:
        body["encoder"] = str(work / f"{name}-transfer")
    elif name == "cascade":
        body |= {"encoder": str(work / f"mt{DEPTH}-transfer"), "exits": list(EXITS)}
    else:
        body["layers"] = int(name.removeprefix("mt"))
    sets = ("wikiqa/wikiqa-train.parquet", "wikiqa/wikiqa-dev.parquet") if adapt else ("squad/squad-sent-train.parquet", "")
    dev = str(data / sets[1]) if adapt else str(work / "squad-sent-dev.parquet")
    return TrainJob.model_validate(
        {
            "transformer": {
                **body,
                "tokens": 1_000,
                "classifier_rate": 5.0 if adapt else 10.0,
                "words": "source",
                "store": "fp16",
            },
            "data": {**(WIKIQA if adapt else SQUAD), "train": [str(data / sets[0])], "dev": [dev]},
            "train": {
                "epochs": ADAPT_EPOCHS if adapt else 1,
                "learning_rate": ADAPT_RATE if adapt else CASCADE_RATE if name == "cascade" else TRANSFER_RATE,
                "schedule": "linear",
                "precision": "bf16",
                "clip": 1.0,
                "evaluate_every": 0 if adapt else 500,
            },
        }
    )


def train(data: Path, work: Path, name: str, adapts: Sequence[bool] = (False, True)) -> str:
    """Transfer and adapt, or what of them is asked for and still to be done; the last lines."""
    torch.set_num_threads(1)
    lines = []
    for adapt in adapts:
        began = time.perf_counter()
        *_, last = run(training(data, work, name, adapt), work / f"{name}-{'adapt' if adapt else 'transfer'}")
        lines.append(f"{last} ({time.perf_counter() - began:,.0f} s)")
    return f"{name}: " + "; ".join(lines)


def small_dev(data: Path, work: Path) -> None:
    """Some of SQuAD-sent's dev questions, which are enough to choose a checkpoint by."""
    rows = [row for rows in questions(data / "squad/squad-sent-dev.parquet", DEV_QUESTIONS) for row in rows]
    pq.write_table(LabelledCandidate.table(rows), work / "squad-sent-dev.parquet")


def long_lists(data: Path, work: Path) -> None:
    """What the job retrieves, as a data set."""
    if (work / "long.parquet").is_file():
        return
    with tempfile.TemporaryDirectory() as folder:
        lists = job(data, Path(folder), LONG_DEPTH, LONG_QUESTIONS, "wikiqa")
    rows = []
    for ranked, gold in lists:
        if len(ranked.candidates) in LONG:
            question = ranked.question.question_id, ranked.question.text
            for c in ranked.candidates:
                passage, right = c.hit.passage, int(c.candidate_id in gold)
                sentence = passage.doc_id, passage.title, c.position, c.text, right
                rows.append(LabelledCandidate(*question, c.candidate_id, *sentence))
    pq.write_table(LabelledCandidate.table(rows), work / "long.parquet")


def test_set(data: Path, work: Path, test: str) -> list[list[LabelledCandidate]]:
    if test == "long":
        return questions(work / "long.parquet")
    every = questions(data / TESTS[test])
    return every if test == "wikiqa" else some(every, QUESTIONS)


def questions(path: Path, most: int | None = None) -> list[list[LabelledCandidate]]:
    """The answerable questions, or `most` of them."""
    answerable = [rows for rows in by_question(read_dataset(path)) if any(row.label for row in rows)]
    return answerable if most is None else some(answerable, most)


def some(asked: Sequence[list[LabelledCandidate]], number: int) -> list[list[LabelledCandidate]]:
    """Questions drawn by hash, so of all of a set's documents."""
    names = set(drawn((rows[0].question_id for rows in asked), number))
    return [rows for rows in asked if rows[0].question_id in names]


def ranker(work: Path, name: str, test: str, drops: Sequence[float] = ()) -> Cascade:
    """The trained model; the adapted one for WikiQA."""
    folder = work / f"{name}-{'adapt' if test == 'wikiqa' else 'transfer'}"
    kind = "cascade" if name == "cascade" else "pointwise"
    return Cascade(*load(folder, kind, find_model), drops, device_of("auto"))


def scored(data: Path, work: Path, name: str, test: str) -> ExitScores:
    """A model's scores at each of its exits on a test set."""
    torch.set_num_threads(1)
    rows = test_set(data, work, test)
    cascade = ranker(work, name, test)
    scores = cascade.exit_scores([ranked_list(each) for each in rows])
    labels = [[row.label for row in each] for each in rows]
    return ExitScores.of(cascade.exits, DEPTH, [each[0].question_id for each in rows], labels, scores)


def timed(data: Path, work: Path, test: str) -> dict[str, float]:
    """Seconds of the monolithic model, of the cascade at each α and of SR at the least, which drop for good here."""
    torch.set_num_threads(1)
    lists = [ranked_list(each) for each in test_set(data, work, test)]
    rankers: dict[str, Cascade | Sequential] = {"monolithic": ranker(work, "mt6", test)}
    for alpha in ALPHAS:
        rankers[f"cascade_a{10 * alpha:.0f}"] = ranker(work, "cascade", test, (alpha,) * (len(EXITS) - 1))
    cuts = [ranker(work, f"mt{depth}", test) for depth in CUTS]
    rankers[f"sequential_a{10 * ALPHAS[0]:.0f}"] = Sequential(cuts, (ALPHAS[0],) * (len(CUTS) - 1))
    taken = {}
    for name, reranker in rankers.items():
        reranker.rerank(lists[:1])
        began = time.process_time()
        reranker.rerank(lists)
        taken[f"{test}_seconds_{name}"] = time.process_time() - began
    return taken


def figures(test: str, name: str, replayed: Replayed, n: int, cost: float) -> Iterator[tuple[str, float]]:
    for metric in METRICS:
        yield f"{test}_{metric.lower().replace('@', '')}_{name}", 100 * float(replayed.metrics[metric][n])
    yield f"{test}_cost_{name}", cost


def rows_of(test: str, tables: dict[str, ExitScores]) -> Iterator[tuple[str, float]]:
    """The rows of one test set: MT cuts, SR and CT at each α, CT at each exit without dropping."""
    none = (0.0,) * (len(EXITS) - 1)
    uniform = [(alpha,) * (len(EXITS) - 1) for alpha in ALPHAS]
    for depth in CUTS:
        name = "monolithic" if depth == DEPTH else f"mt{depth}"
        yield from figures(test, name, replay(tables[f"mt{depth}"], [()]), 0, depth / DEPTH)
    cascade = tables["cascade"]
    for column, depth in enumerate(EXITS[:-1]):
        cut = replace(cascade, exits=(depth,), scores=cascade.scores[:, [column]])
        yield from figures(test, f"cascade_exit{depth}", replay(cut, [()]), 0, depth / DEPTH)
    dropping = replay(cascade, [none, *uniform])
    for n, alpha in enumerate((0, *ALPHAS)):
        yield from figures(test, f"cascade_a{10 * alpha:.0f}", dropping, n, float(dropping.cost[n]))
    cuts = [tables[f"mt{depth}"].scores for depth in CUTS]
    between = [(alpha,) * (len(CUTS) - 1) for alpha in ALPHAS]
    in_a_row = replay(replace(cascade, exits=CUTS, scores=np.concatenate(cuts, axis=1)), between)
    for n, (alpha, drops) in enumerate(zip(ALPHAS, between, strict=True)):
        yield from figures(test, f"sequential_a{10 * alpha:.0f}", in_a_row, n, relative_cost(CUTS, drops, DEPTH, shared=False))


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/cascade_quality"}
    options = arguments("cascade_quality", __doc__ or "", paths=paths)
    if options.smoke:
        shrink(globals(), ENCODER=small_encoder(), ADAPT_EPOCHS=1, QUESTIONS=4, DEV_QUESTIONS=4)
        shrink(globals(), LONG=range(400), LONG_DEPTH=3, LONG_QUESTIONS=2)
    with work_folder(options, "cascade_quality") as work:
        result = trained_and_measured(options.data.resolve(), work, options.smoke)
    result["cost_a3"] = relative_cost(EXITS, (0.3,) * (len(EXITS) - 1), DEPTH)
    finish("cascade_quality", result, options.save)


def trained_and_measured(data: Path, work: Path, smoke: bool) -> dict[str, float | int | str]:
    small_dev(data, work)
    result: dict[str, float | int | str] = {}
    with processes(inline=smoke) as pool:
        transfers = [pool.submit(train, data, work, name, (False,)) for name in MODELS[1:]]  # the cascade begins with one
        long_lists(data, work)
        tell(transfers)
        tell([pool.submit(train, data, work, name) for name in MODELS])
    with processes(inline=smoke) as pool:
        tests = (*TESTS, "long")
        passes = {(test, name): pool.submit(scored, data, work, name, test) for test in tests for name in MODELS}
        times = pool.submit(timed, data, work, "long")
        for test in tests:
            tables = {name: passes[test, name].result() for name in MODELS}
            result[f"{test}_questions"] = len(tables["cascade"].question_ids)
            result[f"{test}_candidates"] = len(tables["cascade"].question)
            result.update(rows_of(test, tables))
            shown = ("monolithic", "cascade_a0", "cascade_a3", "sequential_a3")
            say(f"{test}: " + ", ".join(f"{name} MAP {result[f'{test}_map_{name}']:.2f}" for name in shown))
        result |= times.result()
    return result | {"trained_by": trained_by(work)}


if __name__ == "__main__":
    main()
