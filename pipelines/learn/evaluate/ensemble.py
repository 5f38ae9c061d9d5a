"""Ensemble and agreement: a table of several models' scores and labels -> weights, or the matrix of MHS'
Fig. 3."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from answermill.files.atomic_files import write_text
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import BAD_DATA, UNAVAILABLE, USAGE, JobError
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.learn.evaluate.scores import FINAL, POSITION, read_scores
from answermill.pipelines.runs.watch.progress import progress
from answermill.ranking.evaluation.ensemble import Scored, agreement, tuned
from answermill.ranking.evaluation.metrics import Protocol, check_metric
from answermill.schemas.arrays import Floats


def side_by_side(scores: Path, stages: Sequence[str], labels: Path, form: Form = None) -> tuple[Scored, int]:
    """The labelled candidates in the order of the scores, and the number of those that not every stage has
    scored: missing scores are NaN.

    Raises JobError: 2 where a stage is named twice, 65 where no candidate is left; else as `read_scores` and
    `read_labels` do.
    """
    if len(set(stages)) != len(stages):
        raise JobError(f"a stage is named twice: {', '.join(stages)}", USAGE)

    known = read_labels(labels, form).values
    columns: list[dict[tuple[str, str], float]] = []
    for stage in stages:
        rows = read_scores(scores, stage)
        pairs = zip(rows.question_id.to_pylist(), rows.candidate_id.to_pylist(), strict=True)
        columns.append(dict(zip(pairs, rows.value.tolist(), strict=True)))

    label: dict[tuple[str, str], float] = {}
    for *pair, value in zip(
        known.question_id.to_pylist(), known.candidate_id.to_pylist(), known.value.tolist(), strict=True
    ):
        if label.setdefault((pair[0], pair[1]), value) != value:
            raise JobError(f"{labels}: candidate {pair[1]} of question {pair[0]} has two labels", BAD_DATA)

    places = {pair: place for place, pair in enumerate(columns[0])}
    ids = sorted(label, key=lambda pair: places.get(pair, len(places)))
    values = np.array([[column.get(pair, np.nan) for column in columns] for pair in ids], np.float64)
    missing = int(np.isnan(values).any(1).sum())
    if missing == len(ids):
        raise JobError(
            f"{scores}: no candidate of {labels} has a score of all of {', '.join(stages)}", BAD_DATA
        )

    numbers: dict[str, int] = {}
    question = np.array([numbers.setdefault(q, len(numbers)) for q, _ in ids], np.int64)
    gains = np.maximum(np.array([label[pair] for pair in ids], np.int64), 0)  # as in `evaluate`
    return Scored(question, gains, values), missing


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Weights that are best on a dev set, beside each model alone and all alike."""

    stages: tuple[str, ...]
    metric: str
    weights: tuple[float, ...]
    value: float
    even: float
    alone: tuple[float, ...]
    questions: int
    missing: int

    @property
    def by(self) -> str:
        """The weights as `answermill evaluate --by` reads them."""
        return " + ".join(
            f"{weight:g} * {stage}" for weight, stage in zip(self.weights, self.stages, strict=True) if weight
        )

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.questions:,} questions, {self.metric} in percent; {self.missing:,} labelled candidates "
            "not scored by all"
        )
        for stage, value in zip(self.stages, self.alone, strict=True):
            yield f"{100 * value:>8.2f}  {stage}"
        yield f"{100 * self.even:>8.2f}  all alike"
        yield f"{100 * self.value:>8.2f}  --by {self.by!r}"

    def write(self, file: Path) -> None:
        values = {
            "stages": self.stages,
            "weights": self.weights,
            "by": self.by,
            "metric": self.metric,
            "dev": self.value,
        }
        values |= {"dev_all_alike": self.even, "dev_alone": self.alone, "questions": self.questions}
        write_text(file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class WeightTuning:
    """The weights that are tried, and the metric by which the best are chosen."""

    metric: str
    protocol: Protocol
    parts: int
    """A weight of the grid is a multiple of 1 / parts."""
    trials: int = 0
    """Number of weights that Optuna draws in place of the grid."""
    seed: int = 0


def tune_ensemble(
    scores: Path, labels: Path, stages: Sequence[str], tuning: WeightTuning, form: Form = None
) -> Ensemble:
    """Weights by the whole grid, or by trials of Optuna. Raises JobError: 69 if Optuna is needed and
    missing."""
    metric, protocol, parts, trials = tuning.metric, tuning.protocol, tuning.parts, tuning.trials
    try:
        check_metric(metric)
    except ValueError as e:
        raise JobError(str(e), USAGE) from e

    if orders := [name for name in stages if name in (FINAL, POSITION)]:
        raise JobError(
            f"--stages {orders[0]} is an order and no stage, so it has no scores to combine", USAGE
        )
    if len(stages) < 2 or parts < 1:
        raise JobError(
            f"{len(stages)} stages and {parts} parts; give at least two --stages and one part", USAGE
        )

    scored, missing = side_by_side(scores, stages, labels, form)
    questions = scored.kept(protocol)
    if not questions:
        raise JobError(f"protocol {protocol} keeps no question of {labels}", BAD_DATA)

    done = 0

    def count() -> None:
        nonlocal done
        done += 1

    with progress("ensemble", trials or comb(parts + len(stages) - 1, parts), lambda: done):
        if trials:
            weights, value = _sampled(scored, tuning, count)
        else:
            try:
                weights, value = tuned(scored, metric, protocol, parts, count)
            except ValueError as e:
                raise JobError(f"{e}: --trials", USAGE) from e

    even = scored.value([1 / len(stages)] * len(stages), metric, protocol)
    alone = tuple(scored.value(row, metric, protocol) for row in np.eye(len(stages)).tolist())
    return Ensemble(tuple(stages), metric, weights, value, even, alone, questions, missing)


def _sampled(
    scored: Scored, tuning: WeightTuning, on_trial: Callable[[], object]
) -> tuple[tuple[float, ...], float]:
    """The best weights of `trials`, and their value."""
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError:
        raise JobError("--trials needs Optuna: pip install 'answermill[ensemble]'", UNAVAILABLE) from None

    models = scored.scores.shape[1]

    def weights_of(drawn: Sequence[float]) -> tuple[float, ...]:
        return tuple(round(value / (sum(drawn) or 1.0), 6) for value in drawn)

    def objective(trial: Any) -> float:
        drawn = [trial.suggest_float(str(n), 0.0, 1.0) for n in range(models)]
        return scored.value(weights_of(drawn), tuning.metric, tuning.protocol)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=tuning.seed))
    study.enqueue_trial({str(n): 1.0 for n in range(models)})
    study.optimize(objective, n_trials=tuning.trials, callbacks=[lambda *_: on_trial()])
    return weights_of([study.best_params[str(n)] for n in range(models)]), float(study.best_value)


@dataclass(frozen=True, slots=True)
class HeadAgreement:
    """The share of each head's correct answers that each teacher gives too."""

    heads: tuple[str, ...]
    teachers: tuple[str, ...]
    matrix: Floats

    def lines(self) -> Iterator[str]:
        yield "of the head's correct answers, in percent, those that the teacher gives too"
        width = max(map(len, self.heads)) + 2
        yield " " * width + "".join(f"{teacher:>12}" for teacher in self.teachers)
        for head, row in zip(self.heads, self.matrix.tolist(), strict=True):
            yield f"{head:<{width}}" + "".join(f"{100 * value:>12.2f}" for value in row)

    def write(self, json_file: Path | None, plots: Sequence[Path]) -> None:
        if json_file:
            rows = [[None if np.isnan(value) else value for value in row] for row in self.matrix.tolist()]
            values = {"heads": self.heads, "teachers": self.teachers, "agreement": rows}
            write_text(json_file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")
        if plots:
            from answermill.pipelines.learn.evaluate.plot import plot_agreement

            plot_agreement(plots, self.matrix, self.heads, self.teachers)


def agree(
    scores: Path, labels: Path, heads: Sequence[str], teachers: Sequence[str], form: Form = None
) -> HeadAgreement:
    """Fig. 3 of stages of one table. Raises JobError as `side_by_side` does."""
    if not heads or not teachers:
        raise JobError("give --heads and --teachers", USAGE)
    stages = list(dict.fromkeys((*heads, *teachers)))
    scored, _ = side_by_side(scores, stages, labels, form)
    places = ([stages.index(name) for name in names] for names in (heads, teachers))
    complete = scored.complete()
    head_scores, teacher_scores = (
        Scored(complete.question, complete.label, complete.scores[:, place]) for place in places
    )
    return HeadAgreement(tuple(heads), tuple(teachers), agreement(head_scores, teacher_scores))
