"""Weights of scores, fitted on labelled lists: a list-wise logistic regression, judged by cross-validation.

The probability that a candidate is the answer is softmax(z · w) over its list. The loss is the mean over the
questions of its -log, itself a mean over the correct candidates of a list, plus λ |w|² (ListNet's loss, Cao
et al., ICML 2007, with a linear scorer). It is convex: there is one minimum, and L-BFGS finds it from any
start.

For the figures, the questions are divided into folds by a hash of their ids, and each is ordered by weights
that were fitted without its fold. The weights that are kept are fitted on all questions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.evaluation.significance import interval
from answermill.ranking.rerankers.blend.score_columns import WeightedSum, standardised
from answermill.ranking.rerankers.blend.weights import USUAL_FIT, Fit, FitOptions, Interval
from answermill.schemas.arrays import Bools, Floats, Ints
from answermill.schemas.ranked import RankedList

METRICS = ("P@1", "MRR")
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class LabelledColumns:
    """Candidates of many questions: scores, not standardised, and labels; a question's candidates one after
    the other."""

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
        """Columns of labelled lists. `labels`: one per candidate of each list, in its order. Raises
        ValueError if their numbers differ, a name is repeated, or a candidate has no score of that name."""
        if not names or len(set(names)) != len(names):
            raise ValueError(f"scores {', '.join(names) or 'none'}; name each of them once, and at least one")

        for ranked, list_labels in zip(lists, labels, strict=True):
            if len(list_labels) != len(ranked.candidates):
                raise ValueError(
                    f"question {ranked.question.question_id}: {len(list_labels)} labels for "
                    f"{len(ranked.candidates)} candidates"
                )

        columns = WeightedSum.of(dict.fromkeys(names, 0.0))
        sizes = [len(ranked.candidates) for ranked in lists]
        return cls(
            columns.names,
            np.concatenate([np.empty((0, len(names))), *(columns.columns(ranked) for ranked in lists)]),
            np.repeat(np.arange(len(lists)), sizes),
            np.array([label for list_labels in labels for label in list_labels], np.int64),
            tuple(ranked.question.question_id for ranked in lists),
        )

    def pick(self, keep: Bools) -> LabelledColumns:
        """Candidates for which `keep` [candidates] is true; all questions stay."""
        return LabelledColumns(
            self.names, self.values[keep], self.question[keep], self.label[keep], self.question_ids
        )

    def answerable(self) -> Bools:
        """[questions]: true if the list holds a correct candidate."""
        return np.bincount(self.question[self.label > 0], minlength=len(self.question_ids)) > 0


def fit(
    lists: Sequence[RankedList],
    labels: Sequence[Sequence[int]],
    names: Sequence[str],
    options: FitOptions = USUAL_FIT,
) -> Fit:
    """Weights of the scores `names` for the lists that a blend reads. Raises ValueError like
    `LabelledColumns.of` and `fit_columns`."""
    return fit_columns(LabelledColumns.of(lists, labels, names), options)


def fit_columns(labelled: LabelledColumns, options: FitOptions = USUAL_FIT) -> Fit:
    """Weights of the columns. Questions without a correct candidate teach nothing; they are left out and
    counted.

    Raises ValueError if the penalty is negative, or if there are fewer questions than folds, or fewer folds
    than 2.
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
    """Metric → question id → value when its list is ordered by weights that were fitted without it.

    `Fit.blend` is the mean of these values, which serve comparisons question by question. A question without
    a correct candidate has none. Raises ValueError like `fit`.
    """
    answerable = _AnswerableLists.of(LabelledColumns.of(lists, labels, names), options)
    values = answerable.held_out(options)
    return {metric: dict(zip(answerable.ids, row.tolist(), strict=True)) for metric, row in values.items()}


@dataclass(frozen=True, slots=True)
class _AnswerableLists:
    """Candidates of the questions that have a correct one."""

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
        """Name in METRICS → [questions]: its values when weights fitted without a question's fold order its
        list."""
        fold = _folds(self.ids, options.folds, options.seed)[self.question]
        scores = np.zeros(len(self.question))
        for n in range(options.folds):
            others, own = fold != n, fold == n
            weights = _minimum(self.z[others], self.question[others], self.label[others] > 0, options.penalty)
            scores[own] = self.z[own] @ weights
        return _metrics(len(self.ids), self.question, scores, self.label)


def _folds(ids: Sequence[str], folds: int, seed: int) -> Ints:
    """[questions]: number of the question's fold, by the order of a hash of its id; folds have about equal
    size."""
    digests = [hashlib.sha256(f"{seed}:{name}".encode()).digest() for name in ids]
    place = np.empty(len(ids), np.int64)
    place[sorted(range(len(ids)), key=lambda n: (digests[n], n))] = np.arange(len(ids))
    return place % folds


def _minimum(z: Floats, question: Ints, correct: Bools, penalty: float) -> Floats:
    """[names]: weights with the least loss."""
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
    """Name in METRICS → [questions]: its values, exact under ties."""
    score = score.round(_DECIMALS)
    judged = Judged(questions, question, score, np.maximum(label, 0), np.ones(len(label), np.bool_))
    return {metric: values.expected for metric, values in measure(judged, METRICS).items()}


def _figures(values: dict[str, Floats]) -> dict[str, Interval]:
    figures = {}
    for metric, per_question in values.items():
        low, high = interval(per_question)
        figures[metric] = Interval(value=float(per_question.mean()), low=low, high=high)
    return figures
