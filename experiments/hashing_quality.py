"""HAS beside pooling and attention, in the form of its Table 5, on MiniLM-L6 as the body (the plain
all-MiniLM-L6-v2).

WikiQA: MAP and MRR of the test set. insuranceQA: P@1 and MRR on reduced pools of the shared part of v1, not
comparable with the paper's: pools of 500 of 8,690 answers, QUESTIONS test questions; the dev score that
chooses the checkpoint is of DEV_QUESTIONS dev questions with pools cut to DEV_POOL. Questions are drawn by
hash, so from all documents. Wrong answers are drawn at random, from the question's list in WikiQA, from all
answers in insuranceQA, as in the paper. Protocol `answerable`, in percent, mean and deviation over seeds;
`has` is measured on its bits. `DATA_has_over_VARIANT_difference` is MAP's (insuranceQA's P@1's), of each
question's mean over the seeds, with its 95 % interval (`_low`, `_high`) and `_p`; `attention_over_pooling`
alike. `squad` is HAS alone on SQuAD-sent, QUESTIONS test questions. M is 128, β 5, δ 1e-6, L 200.

On WikiQA and SQuAD-sent there are two more, which have learnt nothing of them: `shipped`, the checkpoint of
HAS in the package, and `similarity`, the cosine of the untrained encoder's vectors.
`DATA_shipped_over_VARIANT_difference` compares the first with the other and with `has`. --regime shipped
trains nothing, measures these two alone, and saves to `hashing_quality_shipped.json`.

--regime long learns from insuranceQA as the paper does, with M 768, for LONG_EPOCHS epochs and with three
seeds, and saves to `hashing_quality_long.json`; base does so on a body of the paper's size, all-mpnet-base-v2
of 12 layers and D 768, and saves to `hashing_quality_768.json`. Both leave SQuAD-sent out. TAKES has their
hours on a processor; base is for a card.

The paper's Figures 2 and 3, other values of β and δ, are `experiments.hashing_sweeps`.

The paper has 18 and 60 epochs at 5e-6; here fewer at a higher rate, chosen on WikiQA's dev set, and the new
attention learns ATTENTION_RATE times as fast. No training data reveal an answer of a test question
(`question_sets/learnable.py`), but for insuranceQA, whose own split is kept. Trainings are those of
`answermill train`, one after the other, and are kept in --work, one folder each: complete ones are not
repeated, stopped ones continue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.learn.train.train import run
from answermill.pipelines.steps.models import dense_encoder, device_of
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.arrays import Floats
from answermill.schemas.labels import LabelledCandidate
from experiments.exit_rows import Row, compared, figures, values
from experiments.question_sets.learnable import answered, learnable, some_of
from testing.harness import arguments, finish, revision, say, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = (
    "hours of training, kept in --work; --regime long ten hours of a core, base two days and a half of one"
)
MEASURED_MODELS = ("hashing",)
DECIDED = (
    "Nothing ships by it: the checkpoint that ships is of `experiments.trainings`, and is measured here."
)

VARIANTS, SPLITS = ("pooling", "attention", "has"), ("train", "dev", "test")
PAIRS = (
    ("has", "attention"),
    ("has", "pooling"),
    ("attention", "pooling"),
    ("shipped", "has"),
    ("shipped", "similarity"),
)
ENCODER, BASE_ENCODER = DEFAULT, "all-mpnet-base-v2"
RATE, ATTENTION_RATE, TOKENS = 5e-5, 10.0, 2_000
BETA, DELTA, ANSWER_TOKENS = 5.0, 1e-6, 200
QUESTIONS, DEV_QUESTIONS, DEV_POOL = 500, 100, 20
PAPER = {"pooling": (77.22, 78.27), "attention": (80.65, 81.83), "has": (81.01, 82.22)}
"""MAP and MRR on WikiQA with BERT-base (Table 5)."""
DATA = {
    "wikiqa": {"name": "WikiQA (Yang et al. 2015)", "licence": "Microsoft Research Data License"},
    "insuranceqa": {
        "name": "insuranceQA v1 (Feng et al. 2015), a part",
        "licence": "for research purpose only",
    },
    "squad": {
        "name": "SQuAD-sent: SQuADShifts' new Wikipedia questions (Miller et al. 2020); "
        f"dev set: {DEV_QUESTIONS} questions of SQuAD v1.1 dev (Rajpurkar et al. 2016)",
        "licence": "CC BY-SA 4.0",
    },
}


class Set(NamedTuple):
    learn: str  # a file of the data
    dev: str
    test: str
    among: str
    epochs: int
    variants: Sequence[str]
    seeds: int
    metrics: tuple[str, str]
    questions: int | None = None  # of the test set; None: all
    attention: int = 128  # M, the hidden size of the attention


def splits(pattern: str) -> tuple[str, str, str]:
    """Files of a data set, by `{}` in their name: train, dev and test."""
    train, dev, test = (pattern.format(split) for split in SPLITS)
    return train, dev, test


SETS = {
    "wikiqa": Set(*splits("wikiqa/wikiqa-{}.parquet"), "list", 4, VARIANTS, 3, ("MAP", "MRR")),
    "insuranceqa": Set(
        *splits("insuranceqa-v1-partial/{}.jsonl.gz"), "all", 2, VARIANTS, 1, ("P@1", "MRR"), QUESTIONS
    ),
    "squad": Set(*splits("squad/squad-sent-{}.parquet"), "list", 1, ("has",), 1, ("P@1", "MRR"), QUESTIONS),
}
LONG_EPOCHS = 10
LONG_SETS = {
    "wikiqa": SETS["wikiqa"],
    "insuranceqa": SETS["insuranceqa"]._replace(epochs=LONG_EPOCHS, seeds=3, attention=768),
}
RESULTS = {
    "short": "hashing_quality",
    "shipped": "hashing_quality_shipped",
    "long": "hashing_quality_long",
    "base": "hashing_quality_768",
}
"""Value of --regime → its saved result."""
FILTERED, SHORTENED = ("wikiqa", "squad"), ("insuranceqa", "squad")
"""Sets for which `prepare` writes the training data, and those for which it writes a small dev set."""
UNTRAINED_SETS = {name: SETS[name]._replace(variants=(), seeds=0) for name in FILTERED}


class Run(NamedTuple):
    data: str
    variant: str
    seed: int
    beta: float = BETA
    delta: float = DELTA

    @property
    def name(self) -> str:
        """Name of the training's folder."""
        settings = "" if (self.beta, self.delta) == (BETA, DELTA) else f"-{self.beta:g}-{self.delta:g}"
        return f"{self.data}-{self.variant}-{self.seed}{settings}"


def runs() -> Iterator[Run]:
    return (
        Run(name, variant, seed)
        for name, settings in SETS.items()
        for seed in range(settings.seeds)
        for variant in settings.variants
    )


def prepare(data: Path, work: Path) -> None:
    """Write the training data, and small dev sets where the whole ones would take longer than the training:
    DEV_QUESTIONS, each with its right answers and the first DEV_POOL others."""
    for name in (name for name in FILTERED if name in SETS):
        if not (work / f"{name}-train.parquet").is_file():
            kept = learnable(data, answered(data / SETS[name].learn))
            pq.write_table(
                LabelledCandidate.table([row for rows in kept for row in rows]),
                work / f"{name}-train.parquet",
            )

    for name in (name for name in SHORTENED if name in SETS):
        if (work / f"{name}-dev.parquet").is_file():
            continue
        rows: list[LabelledCandidate] = []
        for pool in some_of(list(by_question(read_dataset(data / SETS[name].dev))), DEV_QUESTIONS):
            wrong = [row.candidate_id for row in pool if not row.label][:DEV_POOL]
            short = (row for row in pool if row.label or row.candidate_id in wrong)
            rows += [replace(row, position=position) for position, row in enumerate(short)]
        pq.write_table(LabelledCandidate.table(rows), work / f"{name}-dev.parquet")


def training(data: Path, work: Path, wanted: Run) -> TrainJob:
    settings = SETS[wanted.data]
    learn = work / f"{wanted.data}-train.parquet" if wanted.data in FILTERED else data / settings.learn
    dev = work / f"{wanted.data}-dev.parquet" if wanted.data in SHORTENED else data / settings.dev
    section: dict[str, Any] = {
        "variant": wanted.variant,
        "encoder": ENCODER,
        "attention": settings.attention,
        "beta": wanted.beta,
        "delta": wanted.delta,
        "limit": ANSWER_TOKENS,
        "among": settings.among,
        "negatives": "random",
        "tokens": TOKENS,
        "classifier_rate": ATTENTION_RATE,
        "words": "source",
        "store": "fp16",
    }

    return TrainJob.model_validate(
        {
            "hashing": section,
            "data": {**DATA[wanted.data], "train": [str(learn)], "dev": [str(dev)]},
            "train": {
                "epochs": settings.epochs,
                "learning_rate": RATE,
                "schedule": "linear",
                "weight_decay": 0.01,
                "precision": "auto",
                "clip": 1.0,
                "metric": settings.metrics[0],
                "seed": wanted.seed,
            },
        }
    )


def one(data: Path, work: Path, wanted: Run) -> Row:
    """Train and measure, unless a result is kept."""
    folder, began = work / wanted.name, time.perf_counter()
    *_, line = run(training(data, work, wanted), folder)
    file, duration = folder / "measured.json", time.perf_counter() - began
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if kept.pop("revision", None) != revision():
        reranker = load_reranker("hashing", folder, model=find_model, device=device_of("auto"))
        kept = {name: column.tolist() for name, column in measured(data, wanted.data, reranker).items()}
        file.write_text(json.dumps({"revision": revision(), **kept}), encoding="utf-8")
    row = Row({name: np.array(column) for name, column in kept.items()})
    shown = ", ".join(f"{name} {100 * column.mean():.2f}" for name, column in row.values.items())
    say(f"{wanted.name}: {line} ({duration:,.0f} s); test {shown}")
    return row


def measured(data: Path, name: str, reranker: Reranker) -> dict[str, Floats]:
    """Metric, by its name in keys → its value for each of the set's test questions. The lists are ranked
    together, so that an answer in many pools is encoded once."""
    settings = SETS[name]
    lists = list(by_question(read_dataset(data / settings.test)))
    lists = lists if settings.questions is None else some_of(lists, settings.questions)
    questions = [rows for rows in lists if any(row.label for row in rows)]
    scores: list[float] = []

    for rows, ranked in zip(
        questions, reranker.rerank([ranked_list(rows) for rows in questions]), strict=True
    ):
        known = {c.candidate_id: c.stages[-1].score for c in ranked.candidates}
        scores += [known[row.candidate_id] for row in rows]

    question = np.repeat(np.arange(len(questions)), [len(rows) for rows in questions])
    label = np.array([row.label for rows in questions for row in rows], np.int64)
    by_metric = values(question, label, np.array(scores))
    return {metric: by_metric[metric] for metric in map(key_of, settings.metrics)}


def trained_elsewhere() -> Mapping[str, Reranker]:
    """Name → reranker, for rerankers that learn from none of the sets."""
    shipped = load_reranker("hashing", SHIPPED / "hashing", model=find_model, device=device_of("auto"))
    return {"shipped": shipped, "similarity": Similarity(dense_encoder(ENCODER))}


def key_of(metric: str) -> str:
    """Name of a metric in keys."""
    return metric.lower().replace("@", "")


def main() -> None:
    options = arguments(
        "hashing_quality",
        __doc__ or "",
        paths={"work": "folder of the trainings; out/NAME of the saved result"},
        choices={"regime": tuple(RESULTS)},
    )
    if options.regime in ("long", "base"):
        shrink(globals(), SETS=LONG_SETS)
    if options.regime == "shipped":
        shrink(globals(), SETS=UNTRAINED_SETS)
    if options.regime == "base":
        shrink(globals(), ENCODER=BASE_ENCODER)
    if options.smoke:
        few = {
            name: settings._replace(seeds=min(settings.seeds, 1), epochs=1) for name, settings in SETS.items()
        }
        shrink(globals(), ENCODER=small_encoder(), SETS=few)
    torch.set_num_threads(1)
    name = RESULTS[options.regime]
    with work_folder(options, name) as work:
        result = trained_and_measured(options.data.resolve(), work)
    finish(name, result, options.save, MEASURED_MODELS)


def trained_and_measured(data: Path, work: Path) -> dict[str, float | int | str]:
    trainings = list(runs())
    if trainings:
        prepare(data, work)
    rows: dict[str, dict[str, list[Row]]] = {name: {} for name in SETS}
    for run_ in trainings:
        rows[run_.data].setdefault(run_.variant, []).append(one(data, work, run_))
    for name, reranker in trained_elsewhere().items():
        for set_name in (set_name for set_name in FILTERED if set_name in SETS):
            rows[set_name][name] = [Row(measured(data, set_name, reranker))]

    result: dict[str, float | int | str] = {}
    for name, set_rows in rows.items():
        for variant, seeds in set_rows.items():
            result |= figures(name, variant, seeds)
        for variant, over in PAIRS:
            if variant in set_rows and over in set_rows:
                result |= compared(name, variant, over, set_rows, key_of(SETS[name].metrics[0]))

    if not trainings:
        return result
    for variant, (map_, mrr) in PAPER.items():
        ours = f"{result[f'wikiqa_map_{variant}']:.2f} / {result[f'wikiqa_mrr_{variant}']:.2f}"
        say(f"WikiQA {variant:<10} MAP / MRR {ours}; the paper, BERT-base, {map_} / {mrr}")

    return (
        result
        | {f"{name}_seeds": settings.seeds for name, settings in SETS.items()}
        | {"trained_by": trained_by(work)}
    )


if __name__ == "__main__":
    main()
