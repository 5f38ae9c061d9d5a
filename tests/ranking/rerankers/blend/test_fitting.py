"""Fitted weights: the minimum is the minimum, and the figures are of questions that the weights have not
seen."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from answermill.ranking.rerankers.blend.blend import Blend
from answermill.ranking.rerankers.blend.fitting import LabelledColumns, fit, fit_columns, held_out
from answermill.ranking.rerankers.blend.weights import FitOptions
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, StageScore


def drawn(questions: int = 60, size: int = 8, seed: int = 0) -> tuple[list[RankedList], list[list[int]]]:
    """Lists in which stages `a` and `b` each see half of what makes an answer, and `noise` nothing."""
    generator = np.random.default_rng(seed)
    lists, labels = [], []
    for q in range(questions):
        a, b, noise = generator.normal(size=(3, size))
        right = int((a + b + 0.3 * generator.normal(size=size)).argmax())
        candidates = []
        for n in range(size):
            passage = Passage(f"d{n}#0", f"d{n}", "", "", 0, 4, "Text", ())
            hit = Hit(f"q{q}", "Which?", n + 1, 1 / (61 + n), None, None, None, None, passage)
            scores = (("a", 100 * a[n]), ("b", b[n]), ("noise", noise[n]))
            candidates.append(
                Candidate(hit, None, n, tuple(StageScore(key, float(score), 1) for key, score in scores))
            )
        lists.append(RankedList(Question(f"q{q}", "Which?"), tuple(candidates)))
        labels.append([int(n == right) for n in range(size)])

    return lists, labels


def loss(columns: LabelledColumns, weights: np.ndarray, penalty: float) -> float:
    """What is minimised, written down again, list by list."""
    total = 0.0
    for q in range(len(columns.question_ids)):
        x = columns.values[columns.question == q]
        z = (x - x.mean(0)) / x.std(0)
        score = z @ weights
        log_softmax = score - np.log(np.exp(score).sum())
        total -= log_softmax[columns.label[columns.question == q] > 0].mean()
    return total / len(columns.question_ids) + penalty * float(weights @ weights)


def test_no_weights_nearby_have_a_smaller_loss() -> None:
    lists, labels = drawn()
    labels[3][0] = labels[3][1] = 1  # several correct ones
    fitted = fit(lists, labels, ["a", "b", "noise"], FitOptions(penalty=0.01))
    columns = LabelledColumns.of(lists, labels, ["a", "b", "noise"])
    weights = np.array([fitted.weights[name] for name in columns.names])
    least = loss(columns, weights, 0.01)
    for step in itertools.product((-0.01, 0.0, 0.01), repeat=3):
        assert loss(columns, weights + step, 0.01) >= least - 1e-9
    assert least < loss(columns, np.array([1.0, 1.0, 0.0]), 0.01)


def test_what_sees_the_answer_gets_weight_whatever_its_scale_and_noise_gets_none() -> None:
    lists, labels = drawn(150)
    fitted = fit(lists, labels, ["a", "b", "noise"])
    assert fitted.weights["a"] == pytest.approx(fitted.weights["b"], rel=0.4) and fitted.weights["a"] > 1
    assert abs(fitted.weights["noise"]) < 0.5
    assert fitted.blend["P@1"].value > 0.7 > max(fitted.alone[name]["P@1"].value for name in "ab")
    assert fitted.best in ("a", "b") and fitted.gain["MRR"].low > 0
    assert fitted.gain["MRR"].value == pytest.approx(
        fitted.blend["MRR"].value - fitted.alone[fitted.best]["MRR"].value
    )


def test_the_blend_s_figures_are_of_questions_that_its_weights_have_not_seen() -> None:
    """Labels at random: weights that were measured where they were fitted would look better than chance."""
    lists, labels = drawn(200)
    generator = np.random.default_rng(1)
    names = ["a", "b", "noise", "log_rank"]
    for gold in labels:
        gold[:] = [int(n == 0) for n in generator.permutation(len(gold))]
    fitted = fit(lists, labels, names)
    (ranked,) = ([r.candidates for r in Blend(fitted.weights).rerank(lists)],)
    seen = np.mean([labels[q][c[0].position] for q, c in enumerate(ranked)])
    assert fitted.blend["P@1"].value < seen and fitted.blend["P@1"].low < 1 / 8


def test_blend_orders_as_the_fit_does() -> None:
    lists, labels = drawn(40)
    fitted = fit(lists, labels, ["a", "b"])
    first = [r.candidates[0].position for r in Blend(fitted.weights).rerank(lists)]
    assert np.mean([labels[q][n] for q, n in enumerate(first)]) > 0.7


def test_the_same_whatever_the_order_of_names_and_of_folds_by_id() -> None:
    lists, labels = drawn(30)
    fitted = fit(lists, labels, ["a", "b"])
    assert fit(lists, labels, ["b", "a"]) == fitted == fit(lists, labels, ["a", "b"])
    turned = fit(lists[::-1], labels[::-1], ["a", "b"])
    assert turned.weights == pytest.approx(fitted.weights, abs=1e-5)
    # No question changes its fold.
    assert turned.blend["P@1"].value == pytest.approx(fitted.blend["P@1"].value)
    assert fit(lists, labels, ["a", "b"], FitOptions(seed=1)).weights == fitted.weights


def test_questions_that_teach_nothing_are_counted() -> None:
    lists, labels = drawn(20)
    fitted = fit(lists, labels, ["a", "b"])
    empty = RankedList(Question("none", "?"), ())
    more = fit(
        [*lists, empty, replace(lists[0], question=Question("again", "?"))],
        [*labels, [], [0] * 8],
        ["a", "b"],
    )
    assert (more.questions, more.without_answer, more.candidates) == (20, 2, 160)

    assert more.weights == fitted.weights
    alone = fit(
        [*lists, RankedList(Question("one", "?"), lists[0].candidates[:1])], [*labels, [1]], ["a", "b"]
    )
    assert alone.questions == 21 and all(np.isfinite(list(alone.weights.values())))


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        ([], {}, "scores none; name each of them once"),
        (["a", "a"], {}, "scores a, a; name each of them once"),
        (["a", "c"], {}, "has no score 'c'"),
        (["a"], {"folds": 1}, "1 folds of 6 questions"),
        (["a"], {"folds": 7}, "7 folds of 6 questions with a correct candidate"),
        (["a"], {"penalty": -0.1}, "penalty = -0.1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(names, options, says) -> None:
    lists, labels = drawn(6)
    with pytest.raises(ValueError, match=says):
        fit(lists, labels, names, FitOptions(**options))


def test_labels_that_are_not_one_per_candidate_are_refused() -> None:
    lists, labels = drawn(6)
    with pytest.raises(ValueError, match="question q2: 7 labels for 8 candidates"):
        fit(lists, [*labels[:2], labels[2][1:], *labels[3:]], ["a"])


def test_columns_are_enough() -> None:
    lists, labels = drawn(20)
    assert fit_columns(LabelledColumns.of(lists, labels, ["a", "b"])) == fit(lists, labels, ["a", "b"])


def test_each_question_is_judged_by_weights_that_did_not_see_it() -> None:
    lists, labels = drawn(20)
    labels[3] = [0] * len(labels[3])
    values, fitted = held_out(lists, labels, ["a", "b"]), fit(lists, labels, ["a", "b"])
    answerable = {ranked.question.question_id for n, ranked in enumerate(lists) if n != 3}
    for metric in ("P@1", "MRR"):
        assert values[metric].keys() == answerable
        assert sum(values[metric].values()) / len(answerable) == pytest.approx(fitted.blend[metric].value)
