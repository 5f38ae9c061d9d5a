"""Confidence: calibrations that find what made the data, and curves that are right however the ties fall."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import permutations

import numpy as np
import pytest

from ranking.evaluation.metrics import Judged
from ranking.evaluation.risk_coverage import RIDGE, Calibration, calibration_error, first_answers, risk_coverage

NAN = float("nan")


# Calibration.


def drawn(n: int, weights: tuple[float, ...], bias: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of very different scales, and answers that are right with the probability that the weights say."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, len(weights))) * (1, 50)[: len(weights)] + (3, -20)[: len(weights)]
    chance = 1 / (1 + np.exp(-(features @ np.array(weights) + bias)))
    return features, generator.random(n) < chance


@pytest.mark.parametrize(("weights", "bias"), [((1.5,), -4.0), ((-0.7, 0.04), 1.0)])
def test_a_calibration_finds_the_weights_that_made_the_answers(weights, bias) -> None:
    features, right = drawn(200_000, weights, bias)
    assert 0.1 < right.mean() < 0.9
    found = Calibration.fit(features, right)
    assert found.weights == pytest.approx(weights, rel=0.03) and found.bias == pytest.approx(bias, abs=0.06)
    assert calibration_error(found(features), right) < 0.005
    assert calibration_error(Calibration(tuple(2 * w for w in weights), 2 * bias)(features), right) > 0.05


def test_its_confidences_are_as_many_as_the_right_answers() -> None:
    """Where the bias is free, the slope of the loss is 0 there: the mean confidence is the share of right answers."""
    features, right = drawn(300, (1.5,), -4.0)
    assert Calibration.fit(features, right)(features).mean() == pytest.approx(right.mean(), abs=1e-9)


def test_a_two_by_two_table_gives_its_log_odds() -> None:
    features = np.repeat([[0.0], [1.0]], 10, axis=0)
    right = np.array([1] * 2 + [0] * 8 + [1] * 9 + [0], np.bool_)
    found = Calibration.fit(features, right)
    assert found.bias == pytest.approx(np.log(2 / 8), abs=1e-3)
    assert found.weights[0] == pytest.approx(np.log(9 / 1) - np.log(2 / 8), abs=1e-3)
    assert found([[0.0], [1.0]]) == pytest.approx([0.2, 0.9], abs=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable_answers_have_finite_weights_whatever_the_scale(scale) -> None:
    features = np.array([[0.0], [1.0], [2.0], [3.0]]) * scale
    found = Calibration.fit(features, [False, False, True, True])
    sure = found(features)
    assert np.isfinite([*found.weights, found.bias]).all() and 1 < found.weights[0] * scale < 1 / RIDGE
    assert (sure[1] < 0.01) and (sure[2] > 0.99) and (np.diff(sure) > 0).all()
    assert sure[0] + sure[3] == pytest.approx(1) and sure[1] + sure[2] == pytest.approx(1)


def test_far_outliers_on_which_whole_steps_run_away_are_fitted() -> None:
    far = [-2, 0, 0, 5, 0, 0, -1267, 0, 24, -1, 1715]
    near = [-56, -13, -33, 50, 0, 1, -220, 12, 2, 1, -10]
    right = np.array([1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1], np.bool_)
    sure = Calibration.fit(np.column_stack([far, near]), right)(np.column_stack([far, near]))
    assert sure.mean() == pytest.approx(right.mean(), abs=1e-9) and sure[right].mean() > sure[~right].mean() + 0.5


def test_what_tells_nothing_gets_no_weight() -> None:
    features, right = drawn(2_000, (1.5,), -4.0)
    alone = Calibration.fit(features, right)
    constant = Calibration.fit(np.column_stack([features, np.full(len(features), 7.0)]), right)
    assert constant.weights == pytest.approx((alone.weights[0], 0.0)) and constant.bias == pytest.approx(alone.bias)
    twice = Calibration.fit(np.column_stack([features, features]), right)
    assert twice.weights == pytest.approx([alone.weights[0] / 2] * 2, rel=1e-4)


def test_a_confidence_is_never_0_or_1_and_nan_stays() -> None:
    sure = Calibration((1.0,), 0.0)([[-1e9], [-100.0], [0.0], [1e9], [NAN]])
    assert 0 < sure[0] <= sure[1] < sure[2] == 0.5 < sure[3] < 1 and np.isnan(sure[4])


def test_a_calibration_goes_through_json_and_the_same_answers_give_the_same_one() -> None:
    features, right = drawn(500, (-0.7, 0.04), 1.0)
    found = Calibration.fit(features, right)
    assert Calibration(**json.loads(json.dumps(asdict(found)))) == found == Calibration.fit(features.tolist(), right.tolist())
    assert isinstance(Calibration([1, 2], 0).weights, tuple)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("features", "right", "says"),
    [
        (np.empty((0, 1)), [], "0 of 0 answers are right"),
        ([[1.0], [2.0]], [True, True], "2 of 2 answers are right"),
        ([[1.0], [2.0]], [False, False], "0 of 2 answers are right"),
        ([[1.0], [NAN]], [True, False], "features of answer 1 are not finite"),
        ([[np.inf], [1.0]], [True, False], "features of answer 0 are not finite"),
        ([1.0, 2.0], [True, False], "give \\[n, m\\]"),
        ([[1.0], [2.0]], [True], "2 rows of features for \\(1,\\) answers"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(features, right, says) -> None:
    with pytest.raises(ValueError, match=says):
        Calibration.fit(features, right)


def test_weights_that_are_none_and_features_that_are_too_many_are_refused() -> None:
    for weights, bias in (((), 0.0), ((NAN,), 0.0), ((1.0,), np.inf)):
        with pytest.raises(ValueError, match="give at least one weight, and finite numbers"):
            Calibration(weights, bias)
    with pytest.raises(ValueError, match="2 features for 1 weights"):
        Calibration((1.0,), 0.0)([[1.0, 2.0]])


# Risk and coverage.


def test_a_curve_by_hand() -> None:
    curve = risk_coverage([0.9, 0.2, 0.8, 0.4], [True, False, False, True])  # answered: right, wrong, right, wrong
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4]) and curve.accuracy == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert [curve.coverage_at(risk) for risk in (0, 0.3, 0.34, 0.5, 1)] == [0.25, 0.25, 0.75, 1, 1]  # over the hill at 1/2
    assert [curve.confidence_at(risk) for risk in (0, 0.34, 0.5)] == [0.9, 0.4, 0.2]


def test_equally_confident_ones_are_answered_together() -> None:
    curve = risk_coverage([0.5, 0.5, 0.9, 0.5], [True, False, True, True])
    assert curve.coverage.tolist() == [0.25, 1] and curve.risk.tolist() == [0, 0.25] and curve.least.tolist() == [0.9, 0.5]
    assert curve.coverage_at(0.2) == 0.25


def test_what_has_no_answer_is_never_covered() -> None:
    curve = risk_coverage([0.9, NAN, 0.3, NAN, 0.1], [1, 1, 1, 0, 0])
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
    sure[generator.random(7) < 0.2] = NAN
    right = generator.random(7) < 0.5
    there = np.flatnonzero(~np.isnan(sure))
    orders = [order for order in permutations(there) if (np.diff(sure[list(order)]) <= 0).all()]
    assert len(orders) > 1
    risks = [np.cumsum(~right[list(order)]) / np.arange(1, len(there) + 1) for order in orders]
    curve = risk_coverage(sure, right)
    assert curve.running == pytest.approx(np.mean(risks, axis=0))
    assert curve.aurc == pytest.approx(np.mean(risks))
    for coverage, risk, least in zip(curve.coverage, curve.risk, curve.least, strict=True):
        answered = sure >= least
        assert (coverage, risk) == pytest.approx((answered.mean(), 1 - right[answered].mean()))


def test_a_confidence_that_knows_nothing_has_the_area_of_the_whole_risk_and_no_other_is_better_than_the_truth() -> None:
    right = np.random.default_rng(1).random(50) < 0.6
    nothing, truth, wrong_way = (risk_coverage(c, right).aurc for c in (np.zeros(50), right, ~right))
    assert nothing == pytest.approx(1 - right.mean())
    assert truth < nothing < wrong_way


@pytest.mark.parametrize(
    ("confidence", "right", "says"),
    [([NAN, NAN], [1, 0], "none of 2 questions has an answer"), ([], [], "none of 0"), ([1.0], [1, 0], "give \\[n\\] each")],
)
def test_no_answer_at_all_is_refused(confidence, right, says) -> None:
    with pytest.raises(ValueError, match=says):
        risk_coverage(confidence, right)


# The answers of a ranking.


def test_the_answer_is_the_first_candidate_and_under_a_tie_the_share_of_correct_ones() -> None:
    judged = Judged.of([([1, 3, 2], [1, 0, 1]), ([5, 5, 5, 1], [0, 2, -1, 1]), ([4], [1]), ([9, 8], [1, 0])])
    judged = Judged(5, judged.question, judged.score, judged.label, judged.question != 2)  # nor has the fifth any candidate
    sure, right = first_answers(judged, judged.score / 10)
    assert sure == pytest.approx([0.3, 0.5, NAN, 0.9, NAN], nan_ok=True)
    assert right == pytest.approx([0, 1 / 3, 0, 1, 0])


def test_what_is_not_ranked_gives_no_confidence_whatever_stands_in_its_place() -> None:
    judged = Judged.of([([0, 0], [1, 0])])
    judged = Judged(1, judged.question, judged.score, judged.label, np.array([True, False]))
    assert [values.tolist() for values in first_answers(judged, np.array([0.2, 0.9]))] == [[0.2], [1]]


def test_the_confidence_need_not_be_the_score_that_orders() -> None:
    judged = Judged.of([([-1, -2], [1, 0]), ([-2, -1], [0, 0])])
    assert first_answers(judged, np.array([0.2, 0.9, 0.8, 0.1]))[0].tolist() == [0.2, 0.1]


# Calibration error.


def test_calibration_error_by_hand() -> None:
    sure, right = [0.1, 0.3, 0.6, 0.8], [False, True, True, True]
    assert calibration_error(sure, right, bins=2) == pytest.approx((abs(0.2 - 0.5) + abs(0.7 - 1)) / 2)
    assert calibration_error(sure, right, bins=1) == pytest.approx(0.75 - 0.45)
    assert calibration_error([*sure, NAN], [*right, True], bins=9) == pytest.approx((0.1 + 0.7 + 0.4 + 0.2) / 4)


def test_the_order_of_equally_confident_answers_does_not_move_the_calibration_error() -> None:
    right = np.array([True] * 10 + [False] * 10)
    assert calibration_error(np.full(20, 0.5), right, bins=4) == pytest.approx(0)
    assert calibration_error(np.full(20, 0.5), right[::-1], bins=4) == pytest.approx(0)


def test_scores_that_are_no_probabilities_have_no_calibration_error() -> None:
    for sure in ([1.5], [-0.1], [NAN]):
        with pytest.raises(ValueError, match="confidences from 0 to 1"):
            calibration_error(sure, [True])
