"""Decision whether to answer: risk of a ranker's first answers, the more confident ones given first.

Every question counts, and one without an answer counts as never answered. With one confidence per question,
the most confident answers are given first and the rest are withheld. The share of wrong answers among those
given, at each share of questions answered, is the risk-coverage curve of El-Yaniv and Wiener (JMLR 2010);
only the order of the confidences decides it. `calibration_error` measures something else: whether the
confidences are probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.evaluation.significance import EQUAL
from answermill.schemas.arrays import Bools, Floats, Ints

BINS = 15
"""Default number of bins in `calibration_error`."""


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The curve, the most confident answers first; equally confident answers are given together."""

    questions: int
    """All questions, those without an answer included."""
    running: Floats
    """[answers]: risk of the first k answers, k from 1; inside a tie its expectation over the tie's
    orders."""
    ends: Ints
    """[ties]: number of answers up to and including the tie. An answer that ties with no other is a tie of
    one."""
    least: Floats
    """[ties]: confidence of the tie, the least one answered so far."""

    @property
    def coverage(self) -> Floats:
        """[ties]: share of all questions answered; its last value is below 1 if some have no answer."""
        return self.ends / self.questions

    @property
    def risk(self) -> Floats:
        """[ties]: share of the answers given that is wrong."""
        return self.running[self.ends - 1]

    @property
    def accuracy(self) -> Floats:
        """[ties]: share of the answers given that is right."""
        return 1 - self.risk

    @property
    def aurc(self) -> float:
        """Area under the curve over the coverage that is reached: the mean of `running`, which is its
        expectation over the orders of each tie. Lower is better; a constant confidence gets the risk of
        answering everything."""
        return float(self.running.mean())

    def coverage_at(self, risk: float) -> float:
        """The greatest coverage whose risk is at most `risk`; 0 if every coverage has a higher risk."""
        return max(self.coverage[self.risk <= risk + EQUAL].tolist(), default=0.0)

    def confidence_at(self, risk: float) -> float | None:
        """The least confidence answered at `coverage_at(risk)`; None if that coverage is 0."""
        return min(self.least[self.risk <= risk + EQUAL].tolist(), default=None)


class FirstAnswers(NamedTuple):
    """The first answer to each question, as arrays [questions]."""

    confidence: Floats
    """The ranker's confidence in the answer; 0 if there is none."""
    right: Floats
    """Probability that the answer is right; 0 if there is none."""
    is_answered: Bools
    """True if there is an answer."""


def risk_coverage(
    confidence: npt.ArrayLike, right: npt.ArrayLike, is_answered: npt.ArrayLike | None = None
) -> RiskCoverage:
    """The curve of `confidence` [n] and `right` [n]: whether the answer is right, or the probability of that,
    from 0 to 1.

    `is_answered` [n]: whether the question has an answer; None if all have. A question without one is never
    covered, and its other values are ignored. Raises ValueError if no question has an answer, an answer's
    confidence is NaN, or the lengths differ.
    """
    sure, credit = _answers(confidence, right, is_answered)
    questions = np.size(confidence)
    if not len(sure):
        raise ValueError(f"none of {questions} questions has an answer")
    values, tie, size = np.unique(-sure, return_inverse=True, return_counts=True)
    wrong = np.bincount(tie, 1 - credit) / size  # [ties]: expected at each place of the tie
    running = np.cumsum(np.repeat(wrong, size)) / np.arange(1, len(sure) + 1)
    return RiskCoverage(questions, running, np.cumsum(size), -values)


def first_answers(judged: Judged, confidence: Floats, is_answer: Bools | None = None) -> FirstAnswers:
    """First answer to each question. `confidence` [n] and `is_answer` [n] belong to the candidates: the mask
    is true for those that may be the answer; None if all may.

    If several candidates tie for the first place, the probability is P@1's, the share of correct ones among
    them, and the confidence is the highest of those that may be the answer. There is no answer if none of
    them may, or nothing is ranked.
    """
    best = np.full(judged.questions, -np.inf)
    np.maximum.at(best, judged.question[judged.ranked], judged.score[judged.ranked])
    first = judged.ranked & (judged.score == best[judged.question])
    if is_answer is not None:
        first &= is_answer
    sure = np.full(judged.questions, -np.inf)
    np.maximum.at(sure, judged.question[first], confidence[first])
    is_answered = np.zeros(judged.questions, np.bool_)
    is_answered[judged.question[first]] = True
    right = measure(judged, ("P@1",))["P@1"].expected
    return FirstAnswers(np.where(is_answered, sure, 0.0), right, is_answered)


@dataclass(frozen=True, slots=True)
class AnswersAtBar:
    """Numbers of questions, if first answers of less confidence than a bar are declined."""

    bar: float
    right: float
    """Expected number under ties, as P@1."""
    wrong: float
    declined: int
    """Questions without a first answer included."""
    declined_unanswerable: int
    """Declined ones that have no correct candidate in the labels."""
    unanswerable: int


def answers_at_bar(
    bar: float, judged: Judged, confidence: Floats, is_answer: Bools | None = None
) -> AnswersAtBar:
    """Numbers at a bar; the other arguments are those of `first_answers`."""
    first = first_answers(judged, confidence, is_answer)
    is_given = first.is_answered & (first.confidence >= bar)
    unanswerable = judged.count(judged.label > 0) == 0
    right = float(first.right[is_given].sum())
    return AnswersAtBar(
        bar=bar,
        right=right,
        wrong=float(is_given.sum()) - right,
        declined=int((~is_given).sum()),
        declined_unanswerable=int((~is_given & unanswerable).sum()),
        unanswerable=int(unanswerable.sum()),
    )


def calibration_error(confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error: |mean confidence - share right| over `bins` bins of equally many answers,
    give or take one.

    With fewer answers than bins each answer is a bin. Equally confident answers count as right by their tie's
    share, so their order does not matter. Raises ValueError if there is none, or one is NaN or not from 0 to
    1.
    """
    parts = reliability(confidence, right, bins)
    gaps = (part.answers * abs(part.confidence - part.right) for part in parts)
    return sum(gaps) / sum(part.answers for part in parts)


class ReliabilityBin(NamedTuple):
    """Answers of about the same confidence."""

    confidence: float
    """Their mean confidence."""
    right: float
    """Share of them that is right."""
    answers: int


def reliability(confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = BINS) -> list[ReliabilityBin]:
    """The bins of `calibration_error`, which is the mean of their |confidence - right| by answers.

    >>> [tuple(map(float, one)) for one in reliability([0.9, 0.7, 0.2, 0.0], [1, 1, 0, 0], 2)]
    [(0.1, 0.0, 2.0), (0.8, 1.0, 2.0)]
    """
    sure, credit = _answers(confidence, right)
    if not len(sure) or sure.min() < 0 or sure.max() > 1 or bins < 1:
        raise ValueError(
            f"{len(sure)} confidences in {bins} bins; give at least one of each, confidences from 0 to 1"
        )
    # Equally confident answers count as right by their tie's share, so their order does not matter.
    values, tie, size = np.unique(sure, return_inverse=True, return_counts=True)
    shares = np.repeat(np.bincount(tie, credit) / size, size)
    parts = np.array_split(np.stack([np.repeat(values, size), shares]), min(bins, len(sure)), axis=1)
    return [ReliabilityBin(float(part[0].mean()), float(part[1].mean()), part.shape[1]) for part in parts]


def _answers(
    confidence: npt.ArrayLike, right: npt.ArrayLike, is_answered: npt.ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Confidence and rightness of the answered questions, as float64. Raises ValueError if the shapes differ
    or a confidence is NaN."""
    sure, credit = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    answered = np.ones(sure.shape, np.bool_) if is_answered is None else np.asarray(is_answered, np.bool_)
    if sure.ndim != 1 or sure.shape != credit.shape or sure.shape != answered.shape:
        raise ValueError(
            f"confidences of shape {sure.shape} and right of shape {credit.shape}; give [n] each"
        )
    if np.isnan(sure[answered]).any():
        raise ValueError(f"the confidence of answer {np.flatnonzero(answered & np.isnan(sure))[0]} is NaN")
    return sure[answered], credit[answered]
