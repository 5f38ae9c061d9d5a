"""Weights of scores, fitted on labelled lists: a list-wise logistic regression, judged by cross-validation.

The probability that a candidate is the answer is softmax(z · w) over its list. Minimised is the mean over the
questions of -log of it, meant over the correct candidates of a list, plus λ |w|² (ListNet's loss, Cao et al.,
ICML 2007, with a linear scorer). It is convex: there is one minimum, and L-BFGS comes to it from anywhere.

For the figures, the questions are parted into folds by a hash of their ids, and each is ordered by weights
that were fitted without its fold. The weights that are kept are fitted on all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from answermill.ranking.evaluation.arrays import Bools, Floats, Ints
from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.evaluation.significance import interval
from answermill.ranking.rerankers.blend.score_columns import WeightedSum, standardised
from answermill.ranking.rerankers.blend.weights import USUAL_FIT, Fit, FitOptions, Interval
from answermill.schemas.ranked import RankedList

METRICS = ("P@1", "MRR")
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class LabelledColumns:
    """Candidates of many questions: scores as they are and labels, a question's candidates one after the
    other."""

    names: tuple[str, ...]
    values: Floats
    """[candidates, names]"""
    question: Ints
    """[candidates]: number of its question, from 0, ascending."""
    label: Ints
    """[candidates]: 1 or more = correct."""
    question_ids: tuple[str, ...]

    @classmethod
    def of(
        cls, lists: Sequence[RankedList], labels: Sequence[Sequence[int]], names: Sequence[str]
    ) -> LabelledColumns:
        """`labels`: one per candidate of each list, in its order. Raises ValueError where their numbers
        differ, a name comes twice, or a candidate has no score of that name."""
        if not names or len(set(names)) != len(names):
            raise ValueError(f"scores {', '.join(names) or 'none'}; name each of them once, and at least one")

        for ranked, of_list in zip(lists, labels, strict=True):
            if len(of_list) != len(ranked.candidates):
                raise ValueError(
                    f"question {ranked.question.question_id}: {len(of_list)} labels for "
                    f"{len(ranked.candidates)} candidates"
                )

        columns = WeightedSum.of(dict.fromkeys(names, 0.0))
        sizes = [len(ranked.candidates) for ranked in lists]
        return cls(
            columns.names,
            np.concatenate([np.empty((0, len(names))), *(columns.columns(ranked) for ranked in lists)]),
            np.repeat(np.arange(len(lists)), sizes),
            np.array([label for of_list in labels for label in of_list], np.int64),
            tuple(ranked.question.question_id for ranked in lists),
        )

    def pick(self, keep: Bools) -> LabelledColumns:
        """The candidates where `keep` [candidates] holds; all questions stay."""
        return LabelledColumns(
            self.names, self.values[keep], self.question[keep], self.label[keep], self.question_ids
        )

    def answerable(self) -> Bools:
        """[questions]: whether the list holds a correct candidate."""
        return np.bincount(self.question[self.label > 0], minlength=len(self.question_ids)) > 0


def fit(
    lists: Sequence[RankedList],
    labels: Sequence[Sequence[int]],
    names: Sequence[str],
    options: FitOptions = USUAL_FIT,
) -> Fit:
    """Weights of the scores `names` for the lists that come to a blend. Raises ValueError as
    `LabelledColumns.of` and `fit_columns`."""
    return fit_columns(LabelledColumns.of(lists, labels, names), options)


def fit_columns(labelled: LabelledColumns, options: FitOptions = USUAL_FIT) -> Fit:
    """Weights of the columns. Questions without a correct candidate teach nothing; they are left out and
    counted.

    Raises ValueError if the penalty is negative, or if fewer questions than folds, or fewer folds than 2, are
    there.
    """
    lists = _AnswerableLists.of(labelled, options)
    ids, question, z, label = lists.ids, lists.question, lists.z, lists.label
    weights = _minimum(z, question, label > 0, options.penalty)

    alone = {name: _metrics(len(ids), question, z[:, n], label) for n, name in enumerate(labelled.names)}
    blend = lists.held_out(options)
    best = max(labelled.names, key=lambda name: (alone[name]["MRR"].mean(), name))

    return Fit(
        weights={
            name: round(float(weight), _DECIMALS)
            for name, weight in zip(labelled.names, weights, strict=True)
        },
        questions=len(ids),
        without_answer=len(labelled.question_ids) - len(ids),
        candidates=len(question),
        penalty=options.penalty,
        folds=options.folds,
        alone={name: _figures(values) for name, values in alone.items()},
        blend=_figures(blend),
        best=best,
        gain=_figures({metric: blend[metric] - alone[best][metric] for metric in METRICS}),
    )


def held_out(
    lists: Sequence[RankedList],
    labels: Sequence[Sequence[int]],
    names: Sequence[str],
    options: FitOptions = USUAL_FIT,
) -> dict[str, dict[str, float]]:
    """Metric → id of a question → its value when weights order its list that were fitted without it.

    `Fit.blend` is the mean of them; they are for comparisons question by question. A question without a
    correct candidate has none. Raises ValueError as `fit`.
    """
    answerable = _AnswerableLists.of(LabelledColumns.of(lists, labels, names), options)
    values = answerable.held_out(options)
    return {metric: dict(zip(answerable.ids, each.tolist(), strict=True)) for metric, each in values.items()}


@dataclass(frozen=True, slots=True)
class _AnswerableLists:
    """The candidates of the questions that have a correct one."""

    ids: Sequence[str]
    question: Ints
    """[candidates]: number of its question among `ids`."""
    z: Floats
    """[candidates, names]: scores, standardised within each list."""
    label: Ints

    @classmethod
    def of(cls, labelled: LabelledColumns, options: FitOptions) -> _AnswerableLists:
        answerable = labelled.answerable()
        number = np.cumsum(answerable) - 1
        kept = labelled.pick(answerable[labelled.question])
        ids = [name for name, here in zip(labelled.question_ids, answerable, strict=True) if here]

        if options.penalty < 0:
            raise ValueError(f"penalty = {options.penalty}; it must be at least 0")
        if not 2 <= options.folds <= len(ids):
            raise ValueError(
                f"{options.folds} folds of {len(ids)} questions with a correct candidate; "
                "give 2 folds or more, and a question each"
            )

        question = number[kept.question]
        z = np.stack([standardised(values, question) for values in kept.values.T], axis=1)
        return cls(ids, question, z, kept.label)

    def held_out(self, options: FitOptions) -> dict[str, Floats]:
        """Each of METRICS per question, whose list is ordered by weights that were fitted without its
        fold."""
        fold = _folds(self.ids, options.folds, options.seed)[self.question]
        scores = np.zeros(len(self.question))
        for n in range(options.folds):
            others, own = fold != n, fold == n
            weights = _minimum(self.z[others], self.question[others], self.label[others] > 0, options.penalty)
            scores[own] = self.z[own] @ weights
        return _metrics(len(self.ids), self.question, scores, self.label)


def _folds(ids: Sequence[str], folds: int, seed: int) -> Ints:
    """[questions]: a question's fold, of about equal size, by the order of a hash of its id."""
    digests = [hashlib.sha256(f"{seed}:{name}".encode()).digest() for name in ids]
    place = np.empty(len(ids), np.int64)
    place[sorted(range(len(ids)), key=lambda n: (digests[n], n))] = np.arange(len(ids))
    return place % folds


def _minimum(z: Floats, question: Ints, correct: Bools, penalty: float) -> Floats:
    """[names]: the weights with the least loss."""
    lists = int(question.max()) + 1
    present = np.bincount(question, minlength=lists) > 0
    count = np.bincount(question[correct], minlength=lists)
    target = np.where(correct, 1 / np.maximum(count, 1)[question], 0.0)  # Σ = 1 in each list
    questions = int(present.sum())

    def loss(weights: Floats) -> tuple[float, Floats]:
        score = z @ weights
        highest = np.full(lists, -np.inf)
        np.maximum.at(highest, question, score)
        exponent = np.exp(score - highest[question])
        total = np.bincount(question, exponent, lists)
        log_total = (highest[present] + np.log(total[present])).sum()
        value = (log_total - target @ score) / questions + penalty * weights @ weights
        slope = (exponent / total[question] - target) @ z / questions + 2 * penalty * weights
        return float(value), slope

    result = minimize(
        loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-8}
    )
    weights: Floats = result.x
    return weights


def _metrics(questions: int, question: Ints, score: Floats, label: Ints) -> dict[str, Floats]:
    """Each of METRICS per question, exact under ties."""
    score = score.round(_DECIMALS)
    judged = Judged(questions, question, score, np.maximum(label, 0), np.ones(len(label), np.bool_))
    return {metric: values.expected for metric, values in measure(judged, METRICS).items()}


def _figures(values: dict[str, Floats]) -> dict[str, Interval]:
    figures = {}
    for metric, of_metric in values.items():
        low, high = interval(of_metric)
        figures[metric] = Interval(value=float(of_metric.mean()), low=low, high=high)
    return figures
