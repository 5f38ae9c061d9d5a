"""Cosinet and Compare-Aggregate learnt from the whole of SQuAD v1.1 train and measured on SQuAD-sent:
Cosinet Table 5.

As the paper: three epochs without early stopping, slanted triangle, 2e-3 pointwise and 2e-4 list-wise, a
tenth of the training questions held out as dev, the questions of SQuAD v2.0 dev with an answer as test set.
So nothing is chosen, neither on dev nor on the test set; `squad_dev_..` are of the models that are measured.
LISTS questions a step, a number that the paper does not state, for speed, and not searched. Left out are
questions that a test set asks in the same words, and candidates that are an answer of a test question. The
label of 7.7 % of the questions is the sentence that shares most words with the question, of those that hold
the answer.

`cascade` is the last exit of the shipped cascade over all candidates: a transformer of 6 layers in the place
of the paper's BERT-base. It learnt from 48,433 questions, most of them of SQuAD v1.1 train, with a teacher,
and reads a sentence with its title and its neighbours.

Keys: `squad_p1_<row>` and MRR, in percent, protocol `answerable`, means over the seeds of a row, with
`.._deviation`; `train_s_<row>` and `score_s_<row>`, seconds of the processor, on one thread, of a training
and of the scores of the test set from text; `seeds_<row>`. `squad_<row>_over_<other>_difference` is of P@1,
of each question's mean over the seeds, with its 95 % interval (`_low`, `_high`) and `_p`.

--rows cosinet leaves Compare-Aggregate out, which takes eight times as long; without --seeds a row of Cosinet
has 3 and one of Compare-Aggregate 1. With it --save writes `cosinet_quality_squad_full_N_seeds.json`. --work
keeps a file of figures for each training, which the same revision does not repeat.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from answermill.files.atomic_files import write_text
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.cosinet.heads import Form
from answermill.ranking.training.list_models import ListOptions, ListTask, vocabulary
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.transformer.devices import native_precision
from answermill.ranking.word_vectors.embeddings import Embeddings, derive
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import RankedList
from experiments.cosinet_quality import parameters, rate
from experiments.exit_rows import Row, compared, exit_scores, figures, values
from experiments.question_sets.gold import drawn
from experiments.question_sets.learnable import Questions, answered, learnable
from testing.harness import arguments, finish, revision, say, shrink, work_folder
from testing.smoke_data import small_checkpoint

TAKES = "six hours of one core, kept in --work; --rows cosinet, an hour"
MEASURED_MODELS = ("cascade",)
DECIDED = "Nothing ships by it."

LEARN = "qa-train/squad-train/squad-sent-train-v1.1.parquet"
HELD_OUT, LISTS, EPOCHS = 0.1, 32, 3
MODELS = {"cosinet": "", "compare_aggregate": "ca_"}
"""Model → the beginning of its rows' names."""
FORMS: tuple[Form, ...] = ("birnn", "pointwise", "list")
SEEDS = {"cosinet": 3, "compare_aggregate": 1}
METRICS = ("p1", "mrr")
CASCADE = SHIPPED / "cascade"
PAIRS = (
    ("birnn", "list"),
    ("birnn", "pointwise"),
    ("pointwise", "list"),
    ("ca_birnn", "birnn"),
    ("ca_pointwise", "pointwise"),
    ("cascade", "birnn"),
)
PAPER = {  # P@1 and MRR (Table 5)
    "pointwise": (86.18, 91.81),
    "list": (85.12, 91.16),
    "birnn": (86.18, 91.97),
    "ca_pointwise": (85.71, 91.49),
    "ca_list": (85.17, 90.69),
    "ca_birnn": (86.32, 92.05),
    "cascade": (92.44, 95.62),
}


class Run(NamedTuple):
    """A training."""

    model: str
    form: Form
    seed: int

    @property
    def row(self) -> str:
        return f"{MODELS[self.model]}{self.form}"


class Measured(NamedTuple):
    """Metric → its value for each test question; seconds of the processor of training and of scoring."""

    values: dict[str, list[float]]
    seconds: dict[str, float]
    dev: float | None = None
    """P@1 on the dev set, of a row that was trained."""


class Data(NamedTuple):
    learn: Questions
    dev: Questions
    test: Questions
    embeddings: Embeddings


def runs(models: tuple[str, ...], seeds: int | None) -> Iterator[Run]:
    """All rows with the first seed, then with the next."""
    most = max(SEEDS.values()) if seeds is None else seeds
    for seed in range(most):
        for model in models:
            if seed < (SEEDS[model] if seeds is None else seeds):
                yield from (Run(model, form, seed) for form in FORMS)


def load(data: Path) -> Data:
    """Nine tenths to learn from, the tenth that is held out, the test set, and vectors of their words."""
    known = learnable(data, answered(data / LEARN))
    learn, dev = held_out(known)
    test = answered(data / "squad/squad-sent-test.parquet")

    words = vocabulary([*known, *test])
    return Data(learn, dev, test, derive(words, find_model(DEFAULT), DEFAULT))


def held_out(lists: Questions) -> tuple[Questions, Questions]:
    """The questions to learn from, and those held out, drawn by hash."""
    names = [rows[0].question_id for rows in lists]
    out = set(drawn(names, round(HELD_OUT * len(names))))
    parts: tuple[Questions, Questions] = ([], [])
    for rows in lists:
        parts[rows[0].question_id in out].append(rows)
    return parts


def learnt(data: Data, run: Run) -> tuple[ListTask, float]:
    """A training of EPOCHS with the model that it leaves, and the seconds of the processor that it took."""
    torch.manual_seed(run.seed)
    options = ListOptions(run.model, run.form, batch=LISTS, seed=run.seed)
    task = ListTask(data.embeddings, data.learn, lambda folder, *_: folder.mkdir(parents=True), options)
    recipe = Recipe(
        epochs=EPOCHS,
        learning_rate=rate(run.form),
        evaluate_every=EPOCHS * task.steps + 1,
        precision=native_precision("cpu"),
        metric="P@1",
        seed=run.seed,
    )

    # The loop needs an evaluation at its end. On one question it takes no time from what is timed.
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        train(task, Dev(data.dev[:1]), recipe, Output(Path(folder), "benchmark"))
    return task, time.process_time() - began


def trained(data: Data, run: Run) -> Measured:
    task, seconds = learnt(data, run)
    reranker = task.reranker()
    dev = Dev(data.dev).score(reranker, "P@1", "answerable")
    result = scored(data.test, reranker, [ranked_list(rows) for rows in data.test])
    return Measured(result.values, {"train_s": seconds, **result.seconds}, dev)


def scored(lists: Questions, reranker: Reranker, ranked: Sequence[RankedList]) -> Measured:
    """Figures of a reranker over `ranked`, the lists in the form that it reads, whose candidates stand in the
    order of their rows."""
    began = time.process_time()
    results = reranker.rerank(ranked)
    seconds = time.process_time() - began
    known = [{c.position: c.score for c in result.candidates} for result in results]
    scores = [by_place[row.position] for rows, by_place in zip(lists, known, strict=True) for row in rows]
    return Measured(of_questions(lists, np.array(scores)), {"score_s": seconds})


def of_questions(lists: Questions, scores: Floats) -> dict[str, list[float]]:
    """Metric → its value for each question, from scores [n] of all candidates."""
    question = np.repeat(np.arange(len(lists)), [len(rows) for rows in lists])
    label = np.array([row.label for rows in lists for row in rows], np.int64)
    by_metric = values(question, label, scores)
    return {metric: by_metric[metric].tolist() for metric in METRICS}


def cascade(lists: Questions) -> Measured:
    """The shipped cascade's last exit over all candidates."""
    began = time.process_time()
    table = exit_scores(CASCADE, lists)
    seconds = time.process_time() - began
    return Measured(of_questions(lists, table.scores[:, -1]), {"score_s": seconds})


def once(file: Path, measure: Callable[[], Measured]) -> Measured:
    """What this revision has measured and kept in the file, or else measures."""
    if file.is_file():
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("revision") == revision():
            return Measured(**content)
    measured = measure()
    write_text(file, json.dumps({"revision": revision(), **measured._asdict()}))
    return measured


def shown(measured: Measured) -> str:
    parts = [f"{name} {100 * np.mean(column):.2f}" for name, column in measured.values.items()]
    return ", ".join([*parts, *(f"{name} {value:,.0f}" for name, value in measured.seconds.items())])


def trained_and_measured(options: argparse.Namespace, work: Path) -> dict[str, float | int | str]:
    data = load(options.data.resolve())
    models = tuple(MODELS) if options.rows == "all" else (options.rows,)
    seeds = None if options.seeds is None else int(options.seeds)

    rows: dict[str, list[Measured]] = {}
    for run in runs(models, seeds):
        measured = once(work / f"{run.row}-{run.seed}.json", partial(trained, data, run))
        rows.setdefault(run.row, []).append(measured)
        say(f"{run.row}, seed {run.seed}: {shown(measured)}; the paper {PAPER[run.row]}")
    rows["cascade"] = [once(work / "cascade.json", partial(cascade, data.test))]
    say(f"cascade: {shown(rows['cascade'][0])}; the paper's BERT-base {PAPER['cascade']}")

    sizes = {
        f"parameters_{prefix}{form}": parameters(model)[f"parameters_{form}"]
        for model, prefix in MODELS.items()
        for form in FORMS
        if f"{prefix}{form}" in rows
    }
    return summary("squad", data, rows, PAIRS) | sizes


def summary(
    name: str, data: Data, measured: Mapping[str, Sequence[Measured]], pairs: Sequence[tuple[str, str]]
) -> dict[str, float | int | str]:
    """Figures of a data set's rows, and the comparisons of those `pairs` whose rows are both there."""
    result: dict[str, float | int | str] = {
        "learn_questions": len(data.learn),
        "learn_candidates": sum(map(len, data.learn)),
        "dev_questions": len(data.dev),
        f"{name}_questions": len(data.test),
        f"{name}_candidates": sum(map(len, data.test)),
    }
    rows = {
        row: [Row({metric: np.array(column) for metric, column in seed.values.items()}) for seed in seeds]
        for row, seeds in measured.items()
    }

    for row, seeds in measured.items():
        result |= figures(name, row, rows[row])
        result[f"seeds_{row}"] = len(seeds)
        for key in seeds[0].seconds:
            result[f"{key}_{row}"] = float(np.mean([seed.seconds[key] for seed in seeds]))
        if seeds[0].dev is not None:
            result[f"{name}_dev_p1_{row}"] = 100 * float(np.mean([seed.dev for seed in seeds]))

    for row, over in pairs:
        if row in rows and over in rows:
            result |= compared(name, row, over, rows, "p1")
    return result


def main() -> None:
    options = arguments(
        "cosinet_quality_squad_full",
        __doc__ or "",
        paths={"work": "folder for what each training found; out/cosinet_quality_squad_full"},
        numbers={"seeds": "seeds of each row; 3, and 1 for Compare-Aggregate"},
        choices={"rows": ("all", "cosinet")},
    )
    if options.smoke:
        shrink(
            globals(), SEEDS={"cosinet": 1, "compare_aggregate": 1}, CASCADE=Path(small_checkpoint("cascade"))
        )
    torch.set_num_threads(1)
    with work_folder(options, "cosinet_quality_squad_full") as work:
        result = trained_and_measured(options, work)
    name = "cosinet_quality_squad_full"
    name += "" if options.seeds is None else f"_{options.seeds:.0f}_seeds"
    finish(name, result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
