"""Whether to answer at all: how sure a ranker is of its first answer, and how often it is right where it is sure.

Every question is counted, also the one that nothing answers: whatever is said there is wrong. With a confidence per question,
the most confident are answered first, and the rest get none. How much is wrong among the answered, at each share of answered
questions, is the risk-coverage curve of El-Yaniv and Wiener (JMLR 2010). The order alone decides it. `Calibration` makes
confidences that mean what they say: of the answers given 0.8, four in five are right (Platt 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ranking.evaluation.metrics import Floats, Ints, Judged, measure
from ranking.evaluation.significance import EQUAL

RIDGE = 1e-6
"""Of `Calibration.fit`."""
BINS = 15
"""Of `calibration_error`."""
_MOST = 36.0  # sigmoid(37) is 1 in float64
_STEPS, _STILL = 200, 1e-10


@dataclass(frozen=True, slots=True)
class Calibration:
    """confidence = sigmoid(weights · features + bias), for the one or two features that tell a right answer from a wrong one.

    `dataclasses.asdict` makes it plain; `Calibration(**…)` takes that back, also when JSON has made a list of the weights.
    Raises ValueError where there is no weight, or a number is not finite.
    """

    weights: tuple[float, ...]
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        object.__setattr__(self, "bias", float(self.bias))
        if not self.weights or not np.isfinite([*self.weights, self.bias]).all():
            raise ValueError(f"weights {self.weights}, bias {self.bias}; give at least one weight, and finite numbers")

    def __call__(self, features: npt.ArrayLike) -> Floats:
        """Features [n, m] → confidences [n], above 0 and below 1: the logit is cut at ±36. NaN stays NaN.

        Raises ValueError where m is not the number of weights.
        """
        rows = _rows(features)
        if rows.shape[1] != len(self.weights):
            raise ValueError(f"{rows.shape[1]} features for {len(self.weights)} weights")
        return _sigmoid(np.clip(rows @ np.array(self.weights) + self.bias, -_MOST, _MOST))

    @classmethod
    def fit(cls, features: npt.ArrayLike, right: npt.ArrayLike) -> Calibration:
        """Logistic regression of `right` [n] on `features` [n, m], by Newton's method with halved steps, in float64.

        The mean log loss gets RIDGE / 2 · |weights|², the features scaled to a standard deviation of 1: next to nothing, but
        separable answers have finite weights by it. That is why Platt's smoothed targets, which are for the same, are left out.
        Raises ValueError where there is no answer, all are right or all are wrong, or a feature is not finite.
        """
        rows, y = _rows(features), np.asarray(right, np.bool_)
        if y.shape != rows.shape[:1]:
            raise ValueError(f"{len(rows)} rows of features for {y.shape} answers")
        if y.all() or not y.any():
            raise ValueError(f"{int(y.sum())} of {len(y)} answers are right; a calibration needs right ones and wrong ones")
        if not np.isfinite(rows).all():
            raise ValueError(f"features of answer {np.flatnonzero(~np.isfinite(rows).all(axis=1))[0]} are not finite")
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale == 0] = 1.0
        found = _newton(np.column_stack([(rows - mean) / scale, np.ones(len(rows))]), y.astype(np.float64))
        weights = found[:-1] / scale
        return cls(tuple(weights.tolist()), float(found[-1] - weights @ mean))


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """What is wrong among the answered, the most confident answered first; equally confident ones are answered together."""

    questions: int
    """All of them, those without any answer too."""
    running: Floats
    """[answers]: risk of the first k answers, k from 1; inside a tie its expectation over the tie's orders."""
    ends: Ints
    """[ties]: how many are answered with the whole tie; one that ties with none is a tie of its own."""
    least: Floats
    """[ties]: the least confidence answered there."""

    @property
    def coverage(self) -> Floats:
        """[ties]: share of all questions that is answered; ends below 1 where some have no answer."""
        return self.ends / self.questions

    @property
    def risk(self) -> Floats:
        """[ties]: share of the answered that is wrong."""
        return self.running[self.ends - 1]

    @property
    def accuracy(self) -> Floats:
        """[ties]: share of the answered that is right."""
        return 1 - self.risk

    @property
    def aurc(self) -> float:
        """Area under the curve over the coverage that is reached: the mean of `running`, so its expectation over the orders of
        each tie. Lower is better; what confidences that know nothing get is the risk of answering everything."""
        return float(self.running.mean())

    def coverage_at(self, risk: float) -> float:
        """The greatest coverage whose risk is at most `risk`; 0 where there is none."""
        return max(self.coverage[self.risk <= risk + EQUAL].tolist(), default=0.0)

    def confidence_at(self, risk: float) -> float | None:
        """The least confidence answered at that coverage; None where it is 0."""
        return min(self.least[self.risk <= risk + EQUAL].tolist(), default=None)


def risk_coverage(confidence: npt.ArrayLike, right: npt.ArrayLike) -> RiskCoverage:
    """The curve of `confidence` [n] and `right` [n]: whether the answer is right, or how likely, from 0 to 1.

    NaN is a question without an answer: it is never covered, and `right` is not looked at. Raises ValueError where no question
    has an answer, or where the lengths differ.
    """
    sure, credit = _pairs(confidence, right)
    questions, answered = len(sure), ~np.isnan(sure)
    if not answered.any():
        raise ValueError(f"none of {questions} questions has an answer")
    values, group, size = np.unique(-sure[answered], return_inverse=True, return_counts=True)
    wrong = np.bincount(group, 1 - credit[answered]) / size  # of a tie's place
    running = np.cumsum(np.repeat(wrong, size)) / np.arange(1, answered.sum() + 1)
    return RiskCoverage(questions, running, np.cumsum(size), -values)


def first_answers(judged: Judged, confidence: Floats) -> tuple[Floats, Floats]:
    """([questions] confidence in each question's first answer; [questions] probability that it is right).

    `confidence` [n] is of each candidate. Under a tie for the first place the probability is P@1's, the share of correct ones
    among the tied, and the confidence the highest of the tied, NaN left out. NaN and 0 where nothing is ranked.
    """
    best = np.full(judged.questions, -np.inf)
    np.maximum.at(best, judged.question[judged.ranked], judged.score[judged.ranked])
    first = judged.ranked & (judged.score == best[judged.question])
    sure = np.full(judged.questions, np.nan)
    np.fmax.at(sure, judged.question[first], confidence[first])
    return sure, measure(judged, ("P@1",))["P@1"].expected


def calibration_error(confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error: |mean confidence - share right|, over `bins` bins of as many answers each, or one more.

    With fewer answers than bins each is a bin. Equally confident answers count as right by their tie's share, so their order
    decides nothing; NaN, no answer, is left out. Raises ValueError where nothing is left, or a confidence is not from 0 to 1.
    """
    sure, credit = _pairs(confidence, right)
    credit, sure = credit[~np.isnan(sure)], sure[~np.isnan(sure)]
    if not len(sure) or sure.min() < 0 or sure.max() > 1 or bins < 1:
        raise ValueError(f"{len(sure)} confidences in {bins} bins; give at least one of each, confidences from 0 to 1")
    values, group, size = np.unique(sure, return_inverse=True, return_counts=True)
    gaps = np.repeat(values - np.bincount(group, credit) / size, size)
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, min(bins, len(gaps)))) / len(gaps))


def _rows(features: npt.ArrayLike) -> Floats:
    rows = np.asarray(features, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"features of shape {rows.shape}; give [n, m]")
    return rows


def _pairs(confidence: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Floats, Floats]:
    sure, credit = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    if sure.ndim != 1 or sure.shape != credit.shape:
        raise ValueError(f"confidences of shape {sure.shape} and right of shape {credit.shape}; give [n] each")
    return sure, credit


def _newton(x: Floats, y: Floats) -> Floats:
    """The coefficients [m + 1] of least loss for rows [n, m + 1], the last column of ones."""
    ridge = np.full(x.shape[1], RIDGE)
    ridge[-1] = 0.0  # the bias is free

    def loss(found: Floats) -> float:
        logit = x @ found
        return float((np.logaddexp(0, logit) - y * logit).mean() + (ridge * found**2).sum() / 2)

    found = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = _sigmoid(x @ found)
        slope = x.T @ (p - y) / len(y) + ridge * found
        curvature = (x.T * (p * (1 - p))) @ x / len(y) + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        while loss(found - step) > loss(found) and np.abs(step).max() > _STILL:
            step /= 2
        found = found - step
        if np.abs(step).max() <= _STILL:
            break
    return found


def _sigmoid(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logit)))
