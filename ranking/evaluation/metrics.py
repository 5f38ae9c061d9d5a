"""P@k, MAP, MRR, nDCG@k, recall@k, exact under ties: what a metric is worth over all orders of the tied candidates.

A scorer that gives equal scores has not ordered anything, so its value is the expectation over the orders of each tie, in
closed form (McSherry & Najork, ECIR 2008), with the worst and best order beside it. Questions are told apart by their
number, never by their text. Which questions count is a protocol, and every result names its own:

    raw         all questions; one without a correct candidate counts 0
    answerable  questions with a correct candidate (WikiQA's 243, all five papers)
    clean       those that have a wrong candidate as well (WikiQA's 237, TREC-QA "clean")
    compat      how much of the field computes it (the functions that TANDA's authors posted): questions of the same text are
                one, those without a correct or without a wrong candidate are dropped, ties fall to the correct candidates.
                A constant scorer gets MRR 1. Here to compare with such figures, not to be reported as a result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

Protocol = Literal["raw", "answerable", "clean", "compat"]
PROTOCOLS: tuple[Protocol, ...] = ("raw", "answerable", "clean", "compat")
METRICS = ("P@1", "MAP", "MRR", "nDCG@10")
"""The metrics of the five papers."""

UNJUDGED = -1
_CUT = re.compile(r"(P|R|nDCG)@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Judged:
    """The candidates of many questions, with their scores and labels, as flat arrays of one length, in any order.

    A judged candidate that the run does not rank is there too: it counts among the correct ones that could be found.
    """

    questions: int
    question: Ints
    """Number of the candidate's question, from 0."""
    score: Floats
    """Higher is better; finite where `ranked`."""
    label: Ints
    """Gain: 0 = wrong, 1 or more = correct, by so much (nDCG); UNJUDGED where nobody said."""
    ranked: Bools
    """Whether the run has it."""

    @classmethod
    def of(cls, lists: Sequence[tuple[Sequence[float], Sequence[int]]]) -> Judged:
        """From (scores, labels) per question, all of them ranked."""
        sizes = [len(labels) for _, labels in lists]
        return cls(
            len(lists),
            np.repeat(np.arange(len(lists)), sizes),
            np.concatenate([np.asarray(scores, np.float64) for scores, _ in lists] or [np.empty(0)]),
            np.concatenate([np.asarray(labels, np.int64) for _, labels in lists] or [np.empty(0, np.int64)]),
            np.ones(sum(sizes), np.bool_),
        )

    def pick(self, keep: Bools) -> Judged:
        """The candidates where `keep` [n] holds; no question goes."""
        return Judged(self.questions, self.question[keep], self.score[keep], self.label[keep], self.ranked[keep])

    def condensed(self) -> Judged:
        """Without the unjudged candidates: the condensed lists of Sakai (SIGIR 2007)."""
        return self.pick(self.label != UNJUDGED)

    def regrouped(self, groups: Ints) -> Judged:
        """With question number q replaced by groups[q]; how questions of the same text become one."""
        return Judged(int(groups.max(initial=-1)) + 1, groups[self.question], self.score, self.label, self.ranked)

    def count(self, of: Bools) -> Ints:
        """[questions]: how many candidates of each question have `of` [n]."""
        return np.bincount(self.question[of], minlength=self.questions)

    def kept(self, protocol: Protocol) -> Bools:
        """[questions]: whether the protocol counts the question."""
        if protocol == "raw":
            return np.ones(self.questions, np.bool_)
        answerable = self.count(self.label > 0) > 0
        return answerable if protocol == "answerable" else answerable & (self.count(self.label <= 0) > 0)


@dataclass(frozen=True, slots=True)
class Values:
    """A metric per question, [questions] each: its expectation over the orders of ties, and its bounds over them."""

    expected: Floats
    worst: Floats
    best: Floats


def measure(judged: Judged, metrics: Sequence[str] = METRICS) -> dict[str, Values]:
    """Each metric for every question; 0 for a question without a correct candidate, or without any ranked one.

    P@k divides by k, as trec_eval does. MAP and recall divide by all correct candidates, ranked or not. nDCG's gain is the
    label itself (trec_eval's, not 2^label - 1) with 1 / log2(rank + 1) for discount, over the best order of all judged
    candidates. Raises ValueError on an unknown metric.
    """
    for metric in metrics:
        check_metric(metric)
    correct = judged.count(judged.label > 0)
    ideals = {metric: _ideal(judged, cut) for metric in metrics if (cut := _cut(metric, "nDCG"))}
    ranked = judged.pick(judged.ranked)
    ordered = {"expected": _Order(ranked), "worst": _Order(ranked, first="wrong"), "best": _Order(ranked, first="correct")}
    return {
        metric: Values(**{which: order.value(metric, correct, ideals.get(metric)) for which, order in ordered.items()})
        for metric in metrics
    }


def unjudged_share(judged: Judged, depth: int, questions: Bools) -> float:
    """Expected share of unjudged candidates among the first `depth` ranked ones, over the questions where `questions` holds."""
    ranked = judged.pick(judged.ranked & questions[judged.question])
    if not len(ranked.label):
        return 0.0
    unjudged = (ranked.label == UNJUDGED).astype(np.int64)
    order = _Order(Judged(ranked.questions, ranked.question, ranked.score, unjudged, ranked.ranked))
    inside = order.rank <= depth
    return float(order.share[inside].sum() / inside.sum())


def check_metric(metric: str) -> None:
    """Raises ValueError, with what is known, where the name is none of a metric."""
    if metric not in ("MAP", "MRR") and not _CUT.fullmatch(metric):
        raise ValueError(f"unknown metric {metric!r}; known: MAP, MRR, and with any number for k: P@k, R@k, nDCG@k")


class _Order:
    """The ranked candidates, best first within each question, and for each place what the ties leave open.

    A tie is a group of n candidates, r of them correct, at the ranks start + 1 .. start + n. Arrays are [n], one per place.
    """

    def __init__(self, judged: Judged, first: Literal["", "wrong", "correct"] = "") -> None:
        """With `first` ties are not left open: their correct candidates come first, or their wrong ones."""
        gain = np.maximum(judged.label, 0)
        tied_by = {"": np.zeros_like(gain), "wrong": gain, "correct": -gain}[first]
        order = np.lexsort((tied_by, -judged.score, judged.question))
        self.questions = judged.questions
        self.question, score, gain = judged.question[order], judged.score[order], gain[order]
        n = len(order)
        new_question = _differs(self.question)
        new_group = np.ones(n, np.bool_) if first else new_question | _differs(score)
        group = np.cumsum(new_group) - 1
        starts = np.flatnonzero(new_group)
        self.rank = np.arange(n) - np.flatnonzero(new_question)[np.cumsum(new_question) - 1] + 1
        self.size = np.bincount(group)[group]
        self.place = np.arange(n) - starts[group] + 1  # from 1, within its group
        self.gain = np.bincount(group, gain)[group] / self.size  # expected at each place
        self.correct = np.bincount(group[gain > 0], minlength=len(starts))[group]
        self.share = self.correct / self.size
        before = np.concatenate([[0], np.cumsum(gain > 0)])  # [i]: correct ones before place i, of all questions
        first_place = np.flatnonzero(new_question)[np.cumsum(new_question)[starts] - 1]
        self.correct_before = (before[starts] - before[first_place])[group]

    def value(self, metric: str, correct: Ints, ideal: Floats | None) -> Floats:
        """[questions]: the metric, given each question's number of correct candidates and its ideal DCG."""
        if k := _cut(metric, "P"):
            return self._sum(self.share, self.rank <= k) / k
        if k := _cut(metric, "R"):
            return _divide(self._sum(self.share, self.rank <= k), correct)
        if k := _cut(metric, "nDCG"):
            assert ideal is not None
            return _divide(self._sum(self.gain / np.log2(self.rank + 1), self.rank <= k), ideal)
        if metric == "MAP":
            return _divide(self._sum(self._precision_at_correct()), correct)
        return self._sum(self._first_correct() / self.rank)

    def _precision_at_correct(self) -> Floats:
        """E[precision at this rank; the candidate here is correct]: given that, each other place of the group holds a correct
        one with (r - 1) / (n - 1)."""
        others = (self.place - 1) * (self.correct - 1) / np.maximum(self.size - 1, 1)
        return np.asarray(self.share * (self.correct_before + 1 + others) / self.rank)

    def _first_correct(self) -> Floats:
        """P(the first correct candidate stands here) = C(n - place, r - 1) / C(n, r), in the first group that has one."""
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self.size.max(initial=0) + 1)))])
        n, r, j = self.size, self.correct, self.place
        possible = (self.correct_before == 0) & (r > 0) & (j <= n - r + 1)
        n, r, j = n[possible], r[possible], j[possible]
        of = log_factorial
        log = of[n - j] - of[r - 1] - of[n - j - r + 1] - of[n] + of[r] + of[n - r]
        chance = np.zeros(len(self.size))
        chance[possible] = np.exp(log)
        return chance

    def _sum(self, values: Floats, where: Bools | None = None) -> Floats:
        weights = values if where is None else np.where(where, values, 0.0)
        return _total(self.question, weights, self.questions)


def _ideal(judged: Judged, cut: int) -> Floats:
    """[questions]: DCG of the best order of all judged candidates."""
    gain = np.maximum(judged.label, 0)
    order = np.lexsort((-gain, judged.question))
    question, gain = judged.question[order], gain[order]
    new = _differs(question)
    rank = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1] + 1
    return _total(question, np.where(rank <= cut, gain / np.log2(rank + 1), 0.0), judged.questions)


def _cut(metric: str, family: str) -> int:
    found = _CUT.fullmatch(metric)
    return int(found[2]) if found and found[1] == family else 0


def _differs(values: npt.NDArray[np.generic]) -> Bools:
    """Whether each value is another than the one before it; the first is."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def _total(question: Ints, values: Floats, questions: int) -> Floats:
    return np.bincount(question, values, minlength=questions).astype(np.float64)


def _divide(values: Floats, by: Floats | Ints) -> Floats:
    """0 where there is nothing to divide by."""
    quotients = np.zeros(len(values))
    np.divide(values, by, out=quotients, where=by > 0)
    return quotients
