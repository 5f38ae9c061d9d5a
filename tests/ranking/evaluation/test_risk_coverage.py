"""Risk-coverage curves and calibration errors that are right in whatever order ties fall."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from answermill.ranking.evaluation.metrics import Judged
from answermill.ranking.evaluation.risk_coverage import (
    answers_at_bar,
    calibration_error,
    first_answers,
    reliability,
    risk_coverage,
)

NAN = float("nan")


# Risk and coverage.


def test_a_curve_by_hand() -> None:
    # Answered: right, wrong, right, wrong.
    curve = risk_coverage([0.9, 0.2, 0.8, 0.4], [True, False, False, True])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4]) and curve.accuracy == pytest.approx(
        [1, 1 / 2, 2 / 3, 1 / 2]
    )
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    # Over the hill at 1/2.
    assert [curve.coverage_at(risk) for risk in (0, 0.3, 0.34, 0.5, 1)] == [0.25, 0.25, 0.75, 1, 1]
    assert [curve.confidence_at(risk) for risk in (0, 0.34, 0.5)] == [0.9, 0.4, 0.2]


def test_equally_confident_ones_are_answered_together() -> None:
    curve = risk_coverage([0.5, 0.5, 0.9, 0.5], [True, False, True, True])
    assert (
        curve.coverage.tolist() == [0.25, 1]
        and curve.risk.tolist() == [0, 0.25]
        and curve.least.tolist() == [0.9, 0.5]
    )
    assert curve.coverage_at(0.2) == 0.25


def test_what_has_no_answer_is_never_covered() -> None:
    curve = risk_coverage([0.9, 0.95, 0.3, NAN, 0.1], [1, 1, 1, 0, 0], [True, False, True, False, True])
    assert curve.coverage.tolist() == [0.2, 0.4, 0.6] and curve.risk == pytest.approx([0, 0, 1 / 3])
    assert curve.aurc == pytest.approx(1 / 9)
    assert curve.coverage_at(1) == 0.6


def test_where_no_coverage_is_safe_enough_it_is_0() -> None:
    curve = risk_coverage([0.9, 0.8], [False, True])
    assert curve.coverage_at(0.4) == 0 and curve.confidence_at(0.4) is None


def test_the_noise_of_sums_does_not_move_a_threshold() -> None:
    curve = risk_coverage(np.arange(30)[::-1], [0.9] * 30)
    assert curve.coverage_at(0.1) == 1


@pytest.mark.parametrize("seed", range(8))
def test_aurc_is_the_mean_over_all_orders_of_the_ties(seed) -> None:
    generator = np.random.default_rng(seed)
    sure = generator.integers(0, 3, 7).astype(float)
    is_answered = generator.random(7) >= 0.2
    right = generator.random(7) < 0.5
    there = np.flatnonzero(is_answered)
    orders = [order for order in permutations(there) if (np.diff(sure[list(order)]) <= 0).all()]
    assert len(orders) > 1
    risks = [np.cumsum(~right[list(order)]) / np.arange(1, len(there) + 1) for order in orders]
    curve = risk_coverage(sure, right, is_answered)
    assert curve.running == pytest.approx(np.mean(risks, axis=0))

    assert curve.aurc == pytest.approx(np.mean(risks))
    for coverage, risk, least in zip(curve.coverage, curve.risk, curve.least, strict=True):
        answered = is_answered & (sure >= least)
        assert (coverage, risk) == pytest.approx((answered.mean(), 1 - right[answered].mean()))


def test_a_confidence_that_knows_nothing_has_the_area_of_the_whole_risk_and_no_other_is_better_than_the_truth() -> (
    None
):
    right = np.random.default_rng(1).random(50) < 0.6
    nothing, truth, wrong_way = (risk_coverage(c, right).aurc for c in (np.zeros(50), right, ~right))
    assert nothing == pytest.approx(1 - right.mean())
    assert truth < nothing < wrong_way


@pytest.mark.parametrize(
    ("confidence", "right", "is_answered", "says"),
    [
        ([NAN, NAN], [1, 0], [False, False], "none of 2 questions has an answer"),
        ([], [], None, "none of 0"),
        ([1.0], [1, 0], None, "give \\[n\\] each"),
        ([0.5, NAN], [1, 0], None, "the confidence of answer 1 is NaN"),
        ([NAN, NAN], [1, 0], [False, True], "the confidence of answer 1 is NaN"),
    ],
)
def test_no_answer_at_all_and_a_confidence_that_is_no_number_are_refused(
    confidence, right, is_answered, says
) -> None:
    with pytest.raises(ValueError, match=says):
        risk_coverage(confidence, right, is_answered)


# The answers of a ranking.


def test_the_answer_is_the_first_candidate_and_under_a_tie_the_share_of_correct_ones() -> None:
    judged = Judged.of([([1, 3, 2], [1, 0, 1]), ([5, 5, 5, 1], [0, 2, -1, 1]), ([4], [1]), ([9, 8], [1, 0])])
    # Nor has the fifth any candidate.
    judged = Judged(5, judged.question, judged.score, judged.label, judged.question != 2)
    sure, right, is_answered = first_answers(judged, judged.score / 10)
    assert sure == pytest.approx([0.3, 0.5, 0, 0.9, 0])
    assert right == pytest.approx([0, 1 / 3, 0, 1, 0])
    assert is_answered.tolist() == [True, True, False, True, False]


def test_what_may_not_be_the_answer_has_no_confidence() -> None:
    judged = Judged.of([([1, 1], [1, 0]), ([2, 1], [1, 0])])
    answers = first_answers(judged, np.array([0.2, 0.9, NAN, 0.5]), np.array([True, False, False, True]))
    assert answers.confidence.tolist() == [0.2, 0] and answers.is_answered.tolist() == [True, False]


def test_what_is_not_ranked_gives_no_confidence_whatever_stands_in_its_place() -> None:
    judged = Judged.of([([0, 0], [1, 0])])
    judged = Judged(1, judged.question, judged.score, judged.label, np.array([True, False]))
    assert [values.tolist() for values in first_answers(judged, np.array([0.2, 0.9]))] == [[0.2], [1], [True]]


def test_the_confidence_need_not_be_the_score_that_orders() -> None:
    judged = Judged.of([([-1, -2], [1, 0]), ([-2, -1], [0, 0])])
    assert first_answers(judged, np.array([0.2, 0.9, 0.8, 0.1]))[0].tolist() == [0.2, 0.1]


# Calibration error.


def test_calibration_error_by_hand() -> None:
    sure, right = [0.1, 0.3, 0.6, 0.8], [False, True, True, True]
    assert calibration_error(sure, right, bins=2) == pytest.approx((abs(0.2 - 0.5) + abs(0.7 - 1)) / 2)
    assert calibration_error(sure, right, bins=1) == pytest.approx(0.75 - 0.45)
    assert calibration_error(sure, right, bins=9) == pytest.approx((0.1 + 0.7 + 0.4 + 0.2) / 4)


def test_the_order_of_equally_confident_answers_does_not_move_the_calibration_error() -> None:
    right = np.array([True] * 10 + [False] * 10)
    assert calibration_error(np.full(20, 0.5), right, bins=4) == pytest.approx(0)
    assert calibration_error(np.full(20, 0.5), right[::-1], bins=4) == pytest.approx(0)


def test_scores_that_are_no_probabilities_have_no_calibration_error() -> None:
    for sure, says in (([1.5], "from 0 to 1"), ([-0.1], "from 0 to 1"), ([NAN], "is NaN")):
        with pytest.raises(ValueError, match=says):
            calibration_error(sure, [True])


def test_at_a_bar_each_question_is_right_wrong_or_declined() -> None:
    # Right and sure; wrong and sure; right and unsure; no correct candidate, unsure; nothing ranked.
    question = np.array([0, 1, 1, 2, 3, 4])
    score = np.array([0.9, 0.9, 0.2, 0.4, 0.3, 0.0])
    label = np.array([1, 0, 1, 1, 0, 0])
    judged = Judged(5, question, score, label, np.array([True] * 5 + [False]))
    counts = answers_at_bar(0.5, judged, score)
    assert (counts.right, counts.wrong, counts.declined) == (1, 1, 3)
    assert (counts.declined_unanswerable, counts.unanswerable) == (2, 2)
    assert answers_at_bar(0.4, judged, score).right == 2  # the bar itself is reached


def test_the_calibration_error_is_the_mean_gap_of_the_reliability() -> None:
    generator = np.random.default_rng(0)
    sure = generator.random(95).round(1)
    right = generator.random(95) < sure**2
    bins = reliability(sure, right, 10)
    assert len(bins) == 10 and sum(part.answers for part in bins) == 95
    gaps = sum(part.answers * abs(part.confidence - part.right) for part in bins) / 95
    assert gaps == pytest.approx(calibration_error(sure, right, 10))
