"""P@k, MAP, MRR, nDCG@k and recall@k, exact under ties: their mean over all orders of the tied candidates.

A scorer that gives equal scores has not ordered anything, so its value is the expectation over the orders of
each tie (`ties.py`), with the worst and the best order beside it. Questions are identified by their number,
never by their text. Which questions count is a protocol, and every result names its own:

    raw         all questions; one without a correct candidate counts 0
    answerable  questions with a correct candidate (WikiQA's 243, all five papers)
    clean       those that have a wrong candidate as well (WikiQA's 237, TREC-QA "clean")
    compat      as much of the field computes it (the functions that TANDA's authors posted): questions with the same text are
                one, those without a correct or without a wrong candidate are dropped, ties fall to the correct candidates.
                A constant scorer gets MRR 1. Use it to compare with such figures, not to report a result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from answermill.ranking.evaluation.ties import Ties, ideal_gain
from answermill.schemas.arrays import Bools, Floats, Ints

Protocol = Literal["raw", "answerable", "clean", "compat"]
PROTOCOLS: tuple[Protocol, ...] = ("raw", "answerable", "clean", "compat")
METRICS = ("P@1", "MAP", "MRR", "nDCG@10")
"""The metrics of the five papers."""

UNJUDGED = -1
_CUT = re.compile(r"(P|R|nDCG)@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Judged:
    """The candidates of many questions, with their scores and labels, as flat arrays of one length, in any
    order.

    Judged candidates that the run does not rank are included: they count among the correct ones that could be
    found.
    """

    questions: int
    question: Ints
    """Number of the candidate's question, from 0."""
    score: Floats
    """Higher is better; finite where `ranked`."""
    label: Ints
    """Gain: 0 = wrong, 1 or more = correct, by degree (nDCG); UNJUDGED if it has no judgement."""
    ranked: Bools
    """True if the run ranks it."""

    @classmethod
    def of(cls, lists: Sequence[tuple[Sequence[float], Sequence[int]]]) -> Judged:
        """Candidates from (scores, labels) per question, all of them ranked."""
        sizes = [len(labels) for _, labels in lists]
        return cls(
            len(lists),
            np.repeat(np.arange(len(lists)), sizes),
            np.concatenate([np.asarray(scores, np.float64) for scores, _ in lists] or [np.empty(0)]),
            np.concatenate([np.asarray(labels, np.int64) for _, labels in lists] or [np.empty(0, np.int64)]),
            np.ones(sum(sizes), np.bool_),
        )

    def pick(self, keep: Bools) -> Judged:
        """Candidates for which `keep` [n] is true; all questions stay."""
        return Judged(
            self.questions, self.question[keep], self.score[keep], self.label[keep], self.ranked[keep]
        )

    def condensed(self) -> Judged:
        """Judged candidates only: the condensed lists of Sakai (SIGIR 2007)."""
        return self.pick(self.label != UNJUDGED)

    def regrouped(self, groups: Ints) -> Judged:
        """Replace question number q by groups[q], so that questions with the same text become one."""
        return Judged(
            int(groups.max(initial=-1)) + 1, groups[self.question], self.score, self.label, self.ranked
        )

    def count(self, which: Bools) -> Ints:
        """[questions]: number of each question's candidates for which `which` [n] is true."""
        return np.bincount(self.question[which], minlength=self.questions)

    def kept(self, protocol: Protocol) -> Bools:
        """[questions]: true if the protocol counts the question. Judgements decide it, so that all runs are
        measured on the same questions: an unjudged candidate is no wrong one here."""
        if protocol == "raw":
            return np.ones(self.questions, np.bool_)
        answerable = self.count(self.label > 0) > 0
        return answerable if protocol == "answerable" else answerable & (self.count(self.label == 0) > 0)


@dataclass(frozen=True, slots=True)
class Values:
    """A metric per question, [questions] each: its expectation over the orders of ties, and its bounds over
    them."""

    expected: Floats
    worst: Floats
    best: Floats


def measure(judged: Judged, metrics: Sequence[str] = METRICS) -> dict[str, Values]:
    """Metric → values per question; 0 for a question without a correct candidate, or without any ranked
    one.

    P@k divides by k, as trec_eval does. MAP and recall divide by all correct candidates, ranked or not.
    nDCG's gain is the label itself (trec_eval's, not 2^label - 1) with 1 / log2(rank + 1) for discount, over
    the best order of all judged candidates. Raises ValueError on an unknown metric.
    """
    for metric in metrics:
        check_metric(metric)
    correct = judged.count(judged.label > 0)
    gain = np.maximum(judged.label, 0)
    ideals = {
        m: ideal_gain(judged.question, gain, judged.questions, cut)
        for m in metrics
        if (cut := _cut(m, "nDCG"))
    }

    ranked = judged.pick(judged.ranked)
    orders = {
        "expected": _Order(ranked),
        "worst": _Order(ranked, first="wrong"),
        "best": _Order(ranked, first="correct"),
    }

    return {
        metric: Values(
            **{which: order.value(metric, correct, ideals.get(metric)) for which, order in orders.items()}
        )
        for metric in metrics
    }


def unjudged_share(judged: Judged, depth: int, questions: Bools) -> float:
    """Expected share of unjudged candidates among the first `depth` ranked ones, over the questions of the
    mask `questions`."""
    ranked = judged.pick(judged.ranked & questions[judged.question])
    if not len(ranked.label):
        return 0.0
    unjudged = (ranked.label == UNJUDGED).astype(np.int64)
    ties = _Order(Judged(ranked.questions, ranked.question, ranked.score, unjudged, ranked.ranked)).ties
    return float(ties.correct_within(depth).sum() / ties.places(depth).sum())


def check_metric(metric: str) -> None:
    """Raises ValueError, with the known names, on an unknown metric."""
    if metric not in ("MAP", "MRR") and not _CUT.fullmatch(metric):
        raise ValueError(
            f"unknown metric {metric!r}; known: MAP, MRR, and with any number for k: P@k, R@k, nDCG@k"
        )


def check_metrics(metrics: Sequence[str]) -> None:
    """Raises ValueError if there is none, or on an unknown one as `check_metric`."""
    if not metrics:
        raise ValueError("no metric; name one or more, such as P@1")
    for metric in metrics:
        check_metric(metric)


class _Order:
    """The ranked candidates as ties, best first within each question."""

    def __init__(self, ranked: Judged, first: Literal["", "wrong", "correct"] = "") -> None:
        """`first` orders each tie: its wrong, or its correct, candidates come first, and each is a tie of
        one."""
        gain = np.maximum(ranked.label, 0)
        tied_by = {"": np.zeros_like(gain), "wrong": gain, "correct": -gain}[first]
        order = np.lexsort((tied_by, -ranked.score, ranked.question))
        question, score, gain = ranked.question[order], ranked.score[order], gain[order]

        # Rows of one question and one score are a tie.
        begins = np.ones(len(order), np.bool_) if first else _differs(question) | _differs(score)
        row = np.flatnonzero(begins)  # [ties]: of the tie's first candidate
        list_row = np.searchsorted(question, question[row])  # [ties]: of its list's first candidate
        tie = np.cumsum(begins) - 1

        # [i]: correct candidates before row i, of all questions.
        before = np.concatenate([[0], np.cumsum(gain > 0)])

        self._questions, self._question = ranked.questions, question[row]
        self.ties = Ties(
            start=row - list_row,
            size=np.bincount(tie, minlength=len(row)),
            correct=np.bincount(tie[gain > 0], minlength=len(row)),
            before=before[row] - before[list_row],
            gain=np.bincount(tie, gain, len(row)).astype(np.float64),
        )

    def value(self, metric: str, correct: Ints, ideal: Floats | None) -> Floats:
        """[questions]: the metric, from each question's number of correct candidates and its ideal DCG."""
        if cut := _cut(metric, "P"):
            return self._total(self.ties.correct_within(cut)) / cut
        if cut := _cut(metric, "R"):
            return _divide(self._total(self.ties.correct_within(cut)), correct)
        if cut := _cut(metric, "nDCG"):
            assert ideal is not None
            return _divide(self._total(self.ties.discounted_gain(cut)), ideal)
        if metric == "MAP":
            return _divide(self._total(self.ties.average_precision()), correct)
        return self._total(self.ties.reciprocal_rank())

    def _total(self, values: Floats) -> Floats:
        return np.bincount(self._question, values, self._questions).astype(np.float64)


def _cut(metric: str, family: str) -> int:
    """k of a metric of the family, as P@k; 0 for others."""
    match = _CUT.fullmatch(metric)
    return int(match[2]) if match and match[1] == family else 0


def _differs(values: npt.NDArray[np.generic]) -> Bools:
    """Mask of the values that differ from the one before; the first one does."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def _divide(values: Floats, by: Floats | Ints) -> Floats:
    """Quotients; 0 where `by` is 0."""
    quotients = np.zeros(len(values))
    np.divide(values, by, out=quotients, where=by > 0)
    return quotients
