"""Cosinet and Compare-Aggregate learnt from the whole of SQuAD v1.1 train and measured on SQuAD-sent: Cosinet
Table 5.

As the paper: three epochs without early stopping, slanted triangle, 2e-3 pointwise and 2e-4 list-wise, a tenth
of the training questions held out as dev, the test set of SQuAD v2.0 dev's questions with an answer. So nothing
is chosen, neither on dev nor on the test set; `squad_dev_..` are of the models that are measured. LISTS
questions a step, a number that the paper does not state, for speed, and not searched. Left out are questions
that a test set asks in the same words, and candidates that are an answer of a test question. The label of 7.7 %
of the questions is the sentence that shares most words with the question among those that hold the answer.

`cascade` is the last exit of the shipped cascade over all candidates: a transformer of 6 layers in the place of
the paper's BERT-base. It learnt from 48,433 questions, most of them of SQuAD v1.1 train, with a teacher, and
reads a sentence with its title and its neighbours.

Keys: `squad_p1_<row>` and MRR, in percent, protocol `answerable`, means over the seeds of a row, with
`.._deviation`; `train_s_<row>` and `score_s_<row>`, seconds of the processor, on one thread, of a training and
of the scores of the test set from text; `seeds_<row>`. `squad_<row>_over_<other>_difference` is of P@1, of each
question's mean over the seeds, with its 95 % interval (`_low`, `_high`) and `_p`.

--rows cosinet leaves Compare-Aggregate out, which takes ten times as long; --seeds is 3 for each row of Cosinet
and 1 for one of Compare-Aggregate if it is not given. --work keeps a file of figures for each training, which
the same revision does not repeat.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.cosinet.heads import Form
from answermill.ranking.training.list_models import ListOptions, ListTask, vocabulary
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.word_vectors.embeddings import Embeddings, derive
from answermill.schemas.arrays import Floats
from experiments.cosinet_quality import parameters, rate
from experiments.exit_rows import Row, compared, exit_scores, figures, values
from experiments.question_sets.gold import drawn
from experiments.question_sets.learnable import Questions, answered, learnable
from testing.harness import arguments, finish, revision, say, shrink, work_folder
from testing.smoke_data import small_checkpoint

TAKES = "six hours of one core, kept in --work; --rows cosinet, 75 minutes"
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
    dev: float = float("nan")


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
    names = [rows[0].question_id for rows in known]
    held_out = set(drawn(names, round(HELD_OUT * len(names))))
    learn = [rows for rows in known if rows[0].question_id not in held_out]
    dev = [rows for rows in known if rows[0].question_id in held_out]
    test = answered(data / "squad/squad-sent-test.parquet")

    words = vocabulary([*known, *test])
    return Data(learn, dev, test, derive(words, find_model(DEFAULT), DEFAULT))


def trained(data: Data, run: Run) -> Measured:
    """Train for EPOCHS, and measure the model that this leaves."""
    torch.manual_seed(run.seed)
    options = ListOptions(run.model, run.form, batch=LISTS, seed=run.seed)
    task = ListTask(data.embeddings, data.learn, lambda folder, *_: folder.mkdir(parents=True), options)
    recipe = Recipe(
        epochs=EPOCHS,
        learning_rate=rate(run.form),
        evaluate_every=EPOCHS * task.steps + 1,
        precision="bf16",
        metric="P@1",
        seed=run.seed,
    )

    # Without the dev set's evaluation, one question of which the loop needs: what is timed is the training.
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        train(task, Dev(data.dev[:1]), recipe, Output(Path(folder), "benchmark"))
    train_s = time.process_time() - began

    reranker = task.reranker()
    dev = Dev(data.dev).score(reranker, "P@1", "answerable")
    result = scored(data.test, reranker)
    return Measured(result.values, {"train_s": train_s, **result.seconds}, dev)


def scored(lists: Questions, reranker: Reranker) -> Measured:
    began = time.process_time()
    ranked = reranker.rerank([ranked_list(rows) for rows in lists])
    seconds = time.process_time() - began
    known = [{c.candidate_id: c.score for c in result.candidates} for result in ranked]
    scores = [by_id[row.candidate_id] for rows, by_id in zip(lists, known, strict=True) for row in rows]
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


def kept(file: Path) -> Measured | None:
    """What this revision has measured; None if it has not."""
    if not file.is_file():
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    return Measured(**content) if content.pop("revision") == revision() else None


def keep(file: Path, measured: Measured) -> None:
    file.write_text(json.dumps({"revision": revision(), **measured._asdict()}), encoding="utf-8")


def trained_and_measured(options: argparse.Namespace, work: Path) -> dict[str, float | int | str]:
    data = load(options.data.resolve())
    models = tuple(MODELS) if options.rows == "all" else (options.rows,)
    seeds = None if options.seeds is None else int(options.seeds)
    rows: dict[str, list[Measured]] = {}

    # The transformer first: it takes less than a training.
    jobs = [("cascade", work / "cascade.json", lambda: cascade(data.test))]
    jobs += [
        (run.row, work / f"{run.row}-{run.seed}.json", lambda run=run: trained(data, run))
        for run in runs(models, seeds)
    ]
    for row, file, measure in jobs:
        measured = kept(file)
        if measured is None:
            measured = measure()
            keep(file, measured)
        rows.setdefault(row, []).append(measured)
        said = [f"{name} {100 * np.mean(column):.2f}" for name, column in measured.values.items()]
        said += [f"{name} {value:,.0f}" for name, value in measured.seconds.items()]
        say(f"{file.stem}: {', '.join(said)}; the paper's P@1 and MRR {PAPER[row]}")

    return summary(data, rows) | {
        f"parameters_{prefix}{form}": number
        for model, prefix in MODELS.items()
        for form in FORMS
        if f"{prefix}{form}" in rows
        for number in [parameters(model)[f"parameters_{form}"]]
    }


def summary(data: Data, measured: dict[str, list[Measured]]) -> dict[str, float | int | str]:
    result: dict[str, float | int | str] = {
        "learn_questions": len(data.learn),
        "learn_sentences": sum(map(len, data.learn)),
        "dev_questions": len(data.dev),
        "squad_questions": len(data.test),
        "squad_sentences": sum(map(len, data.test)),
    }
    rows = {
        name: [Row({metric: np.array(column) for metric, column in seed.values.items()}) for seed in seeds]
        for name, seeds in measured.items()
    }

    for name, seeds in measured.items():
        result |= figures("squad", name, rows[name])
        result[f"seeds_{name}"] = len(seeds)
        result |= {
            f"{key}_{name}": float(np.mean([seed.seconds[key] for seed in seeds])) for key in seeds[0].seconds
        }
        if not np.isnan(seeds[0].dev):
            result[f"squad_dev_p1_{name}"] = 100 * float(np.mean([seed.dev for seed in seeds]))

    for name, over in PAIRS:
        if name in rows and over in rows:
            result |= compared("squad", name, over, rows, "p1")
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
    finish("cosinet_quality_squad_full", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
