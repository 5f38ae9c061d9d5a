"""Calibration of a plan on labelled lists, with and without an answer among them.

A hash of its id puts a question into one of two parts. The probabilities are fitted on the first part, a
third, by a logistic regression over all candidates in which the first of a list weighs as much as all others
of it. The second part is held back for the test of a promise (`bar.py`): ten weights need few questions, a
promise needs many. Calibration error and Brier score are of all questions, each with a probability fitted
without its fold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.evaluation.risk_coverage import calibration_error
from answermill.ranking.evaluation.significance import bootstrap, interval
from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.blend.weights import Interval
from answermill.ranking.rerankers.probability.calibration_file import (
    CalibrationFile,
    PartAnswers,
    PlanStage,
)
from answermill.ranking.rerankers.probability.confidence_features import feature_names, list_features
from answermill.ranking.rerankers.probability.probability import probabilities
from answermill.schemas.arrays import Bools, Floats
from answermill.schemas.ranked import RankedList

RIDGE = 0.003
"""Weight of the penalty in the regression: some hundred questions are few for ten features."""
FOLDS, BINS = 5, 10


@dataclass(frozen=True, slots=True)
class LabelledList:
    """A plan's result for a question, with its labels."""

    ranked: RankedList
    right: tuple[bool, ...]
    """[candidates]"""
    answerable: bool
    """True if the labels have a correct candidate of the question, in the list or not."""

    @property
    def question_id(self) -> str:
        return self.ranked.question.question_id

    @property
    def is_right(self) -> bool:
        """True if the first answer is right."""
        return bool(self.right) and self.right[0]


def calibrate(
    lists: Sequence[LabelledList], plan: Sequence[PlanStage], labels: str, revision: str, seed: int = 0
) -> CalibrationFile:
    """Calibration of a plan. `labels`: their name; `seed`: of the parts and the folds.

    Raises ValueError if there are fewer than 2 questions a fold, or if the first answers of a part or fold
    are all right or all wrong.
    """
    if len(lists) < 2 * FOLDS:
        raise ValueError(f"{len(lists)} labelled questions; a calibration needs {2 * FOLDS} and more")
    stages = [stage.key for stage in plan]
    is_first = fitting([labelled.question_id for labelled in lists], seed)
    first, second = picked(lists, is_first), picked(lists, ~is_first)

    fitted = fit(first, stages)
    probability, right = held_out(lists, stages, seed)
    return CalibrationFile(
        plan=list(plan),
        labels=labels,
        features=list(feature_names(stages)),
        weights=list(fitted.weights),
        bias=fitted.bias,
        fitted=_part(first, fitted, stages),
        held_back=_part(second, fitted, stages),
        folds=FOLDS,
        ece=error_interval(probability, right),
        brier=brier_interval(probability, right),
        revision=revision,
    )


def fit(lists: Sequence[LabelledList], stages: Sequence[str]) -> Calibration:
    """Calibration fitted on the lists. Raises ValueError if all candidates are right, or all wrong."""
    kept = [labelled for labelled in lists if labelled.ranked.candidates]
    features = [list_features(labelled.ranked, stages) for labelled in kept]
    right = [label for labelled in kept for label in labelled.right]
    weights = [_weights(len(rows)) for rows in features]
    width = len(feature_names(stages))
    fitted = Calibration.fit(
        np.concatenate([np.empty((0, width)), *features]), right, np.concatenate([[], *weights]), RIDGE
    )
    # The digits that another machine's arithmetic would give too.
    return Calibration(tuple(float(f"{w:.6g}") for w in fitted.weights), float(f"{fitted.bias:.6g}"))


def _weights(candidates: int) -> Floats:
    """Weights of a list's candidates: 1 for the first, and 1 for all others together.

    >>> _weights(3).tolist(), _weights(1).tolist()
    ([1.0, 0.5, 0.5], [1.0])
    """
    others = candidates - 1
    return np.array([1.0] + [1 / max(others, 1)] * others)


def first_probabilities(
    lists: Sequence[LabelledList], calibration: Calibration, stages: Sequence[str]
) -> Floats:
    """[questions]: probability that the first answer is right; 0 of an empty list."""
    values = [
        probabilities(labelled.ranked, calibration, stages)[0] if labelled.ranked.candidates else 0.0
        for labelled in lists
    ]
    return rounded(np.array(values, np.float64))  # as they are compared with a bar


def held_out(lists: Sequence[LabelledList], stages: Sequence[str], seed: int = 0) -> tuple[Floats, Floats]:
    """([questions] `first_probabilities` by calibrations that were fitted without a question's fold;
    [questions] 1 if the first answer is right, else 0). Raises ValueError like `fit`."""
    fold = np.array([_digest(labelled.question_id, seed) % FOLDS for labelled in lists])
    values = np.zeros(len(lists))
    for n in np.unique(fold):
        calibration = fit(picked(lists, fold != n), stages)
        values[fold == n] = first_probabilities(picked(lists, fold == n), calibration, stages)
    return values, np.array([labelled.is_right for labelled in lists], np.float64)


def error_interval(probability: Floats, right: Floats) -> Interval:
    """Expected calibration error over BINS bins, with its bootstrapped 95 % interval."""

    def error(places: np.ndarray) -> float:
        return calibration_error(probability[places], right[places], BINS)

    low, high = bootstrap(error, len(right))
    return Interval(value=calibration_error(probability, right, BINS), low=low, high=high)


def brier_interval(probability: Floats, right: Floats) -> Interval:
    """Brier score with its bootstrapped 95 % interval."""
    squares = (probability - right) ** 2
    low, high = interval(squares)
    return Interval(value=float(squares.mean()), low=low, high=high)


def fitting(ids: Sequence[str], seed: int = 0) -> Bools:
    """[questions]: true for the third that fits, by a hash of the id; the others are held back."""
    return np.array([(_digest(name, seed) >> 32) % 3 == 0 for name in ids], np.bool_)


def _digest(name: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "big")


def picked(lists: Sequence[LabelledList], keep: Bools) -> list[LabelledList]:
    """Lists for which `keep` [questions] is true."""
    return [labelled for labelled, kept in zip(lists, keep, strict=True) if kept]


def _part(lists: Sequence[LabelledList], calibration: Calibration, stages: Sequence[str]) -> PartAnswers:
    return PartAnswers(
        probability=first_probabilities(lists, calibration, stages).tolist(),
        right=[1 if labelled.is_right else 0 for labelled in lists],
        answerable=[1 if labelled.answerable else 0 for labelled in lists],
    )
