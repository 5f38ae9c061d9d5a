"""Calibrations find the weights that made the data, and give finite ones for separable answers."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from answermill.ranking.evaluation.calibration import RIDGE, Calibration
from answermill.ranking.evaluation.risk_coverage import calibration_error

NAN = float("nan")


def drawn(n: int, weights: tuple[float, ...], bias: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of very different scales, and answers that are right with the probability that the weights
    say."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, len(weights))) * (1, 50)[: len(weights)] + (3, -20)[: len(weights)]
    chance = 1 / (1 + np.exp(-(features @ np.array(weights) + bias)))
    return features, generator.random(n) < chance


@pytest.mark.parametrize(("weights", "bias"), [((1.5,), -4.0), ((-0.7, 0.04), 1.0)])
def test_a_calibration_finds_the_weights_that_made_the_answers(weights, bias) -> None:
    features, right = drawn(200_000, weights, bias)
    assert 0.1 < right.mean() < 0.9
    calibration = Calibration.fit(features, right)
    assert calibration.weights == pytest.approx(weights, rel=0.03) and calibration.bias == pytest.approx(
        bias, abs=0.06
    )
    assert calibration_error(calibration(features), right) < 0.005
    assert calibration_error(Calibration(tuple(2 * w for w in weights), 2 * bias)(features), right) > 0.05


def test_its_confidences_are_as_many_as_the_right_answers() -> None:
    """Where the bias is free, the slope of the loss is 0 there: the mean confidence is the share of right
    answers."""
    features, right = drawn(300, (1.5,), -4.0)
    assert Calibration.fit(features, right)(features).mean() == pytest.approx(right.mean(), abs=1e-9)


def test_a_two_by_two_table_gives_its_log_odds() -> None:
    features = np.repeat([[0.0], [1.0]], 10, axis=0)
    right = np.array([1] * 2 + [0] * 8 + [1] * 9 + [0], np.bool_)
    calibration = Calibration.fit(features, right)
    assert calibration.bias == pytest.approx(np.log(2 / 8), abs=1e-3)
    assert calibration.weights[0] == pytest.approx(np.log(9 / 1) - np.log(2 / 8), abs=1e-3)
    assert calibration([[0.0], [1.0]]) == pytest.approx([0.2, 0.9], abs=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable_answers_have_finite_weights_whatever_the_scale(scale) -> None:
    features = np.array([[0.0], [1.0], [2.0], [3.0]]) * scale
    calibration = Calibration.fit(features, [False, False, True, True])
    sure = calibration(features)
    assert (
        np.isfinite([*calibration.weights, calibration.bias]).all()
        and 1 < calibration.weights[0] * scale < 1 / RIDGE
    )
    assert (sure[1] < 0.01) and (sure[2] > 0.99) and (np.diff(sure) > 0).all()
    assert sure[0] + sure[3] == pytest.approx(1) and sure[1] + sure[2] == pytest.approx(1)


def test_far_outliers_on_which_whole_steps_run_away_are_fitted() -> None:
    far = [-2, 0, 0, 5, 0, 0, -1267, 0, 24, -1, 1715]
    near = [-56, -13, -33, 50, 0, 1, -220, 12, 2, 1, -10]
    right = np.array([1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1], np.bool_)
    sure = Calibration.fit(np.column_stack([far, near]), right)(np.column_stack([far, near]))
    assert (
        sure.mean() == pytest.approx(right.mean(), abs=1e-9)
        and sure[right].mean() > sure[~right].mean() + 0.5
    )


def test_what_tells_nothing_gets_no_weight() -> None:
    features, right = drawn(2_000, (1.5,), -4.0)
    alone = Calibration.fit(features, right)
    constant = Calibration.fit(np.column_stack([features, np.full(len(features), 7.0)]), right)
    assert constant.weights == pytest.approx((alone.weights[0], 0.0)) and constant.bias == pytest.approx(
        alone.bias
    )
    twice = Calibration.fit(np.column_stack([features, features]), right)
    assert twice.weights == pytest.approx([alone.weights[0] / 2] * 2, rel=1e-4)


def test_a_confidence_is_never_0_or_1_and_nan_stays() -> None:
    sure = Calibration((1.0,), 0.0)([[-1e9], [-100.0], [0.0], [1e9], [NAN]])
    assert 0 < sure[0] <= sure[1] < sure[2] == 0.5 < sure[3] < 1 and np.isnan(sure[4])


def test_a_calibration_goes_through_json_and_the_same_answers_give_the_same_one() -> None:
    features, right = drawn(500, (-0.7, 0.04), 1.0)
    calibration = Calibration.fit(features, right)
    assert (
        Calibration(**json.loads(json.dumps(asdict(calibration))))
        == calibration
        == Calibration.fit(features.tolist(), right.tolist())
    )
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
