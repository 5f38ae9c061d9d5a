"""Calibration: probability that an answer is right, from its features (Platt 1999).

A calibrated confidence is a frequency: of the answers with confidence 0.8, four in five are right. The fit is
a logistic regression of a few features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, root
from scipy.special import expit

from answermill.schemas.arrays import Floats

RIDGE = 1e-6
"""Weight of the penalty in `Calibration.fit`, if no other is given."""
_MAX_LOGIT = 36.0  # expit(37) is 1 in float64


@dataclass(frozen=True, slots=True)
class Calibration:
    """confidence = sigmoid(weights · features + bias).

    `dataclasses.asdict` gives a plain dictionary, and `Calibration(**…)` reads it, also when JSON has turned
    the weights into a list. Raises ValueError if there is no weight or a number is not finite.
    """

    weights: tuple[float, ...]
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        object.__setattr__(self, "bias", float(self.bias))
        if not self.weights or not np.isfinite([*self.weights, self.bias]).all():
            raise ValueError(
                f"weights {self.weights}, bias {self.bias}; give at least one weight, and finite numbers"
            )

    def __call__(self, features: npt.ArrayLike) -> Floats:
        """Confidences [n] from features [n, m], above 0 and below 1, because the logit is cut at ±36. NaN
        stays NaN.

        Raises ValueError if m is not the number of weights.
        """
        rows = _as_rows(features)
        if rows.shape[1] != len(self.weights):
            raise ValueError(f"{rows.shape[1]} features for {len(self.weights)} weights")
        logits = rows @ np.array(self.weights) + self.bias
        return np.asarray(expit(np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        right: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        ridge: float = RIDGE,
    ) -> Calibration:
        """Logistic regression of `right` [n] on `features` [n, m], in float64.

        The loss is the mean log loss, by `weight` [n] if given, plus ridge / 2 · |weights|², with the
        features scaled to a standard deviation of 1. The penalty is tiny, but it keeps the weights of
        separable answers finite. Platt's smoothed targets serve the same purpose and are therefore left out.
        Raises ValueError if there is no answer, all are right or all are wrong, or a feature is not finite.
        """
        rows, y = _as_rows(features), np.asarray(right, np.bool_)
        if y.shape != rows.shape[:1]:
            raise ValueError(f"{len(rows)} rows of features for {y.shape} answers")
        if y.all() or not y.any():
            raise ValueError(
                f"{int(y.sum())} of {len(y)} answers are right; a calibration needs right ones and wrong ones"
            )
        if not np.isfinite(rows).all():
            raise ValueError(
                f"features of answer {np.flatnonzero(~np.isfinite(rows).all(axis=1))[0]} are not finite"
            )

        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale == 0] = 1.0
        share = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
        scaled = np.column_stack([(rows - mean) / scale, np.ones(len(rows))])
        coefficients = _regress(scaled, y.astype(np.float64), share / share.sum(), ridge)
        weights = coefficients[:-1] / scale

        return cls(tuple(weights.tolist()), float(coefficients[-1] - weights @ mean))


def _as_rows(features: npt.ArrayLike) -> Floats:
    rows = np.asarray(features, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"features of shape {rows.shape}; give [n, m]")
    return rows


def _regress(x: Floats, y: Floats, share: Floats, ridge: float) -> Floats:
    """Coefficients [m + 1] of least loss for rows [n, m + 1], whose last column is all ones. `share` [n]:
    share of each row in the loss."""
    penalty = np.full(x.shape[1], ridge)
    penalty[-1] = 0.0  # the bias is free

    def loss(coefficients: Floats) -> float:
        logits = x @ coefficients
        return float(share @ (np.logaddexp(0, logits) - y * logits) + penalty @ coefficients**2 / 2)

    def gradient(coefficients: Floats) -> Floats:
        return np.asarray(x.T @ (share * (expit(x @ coefficients) - y)) + penalty * coefficients)

    def hessian(coefficients: Floats) -> Floats:
        p = expit(x @ coefficients)
        return np.asarray((x.T * (share * p * (1 - p))) @ x + np.diag(penalty))

    nearly = minimize(loss, np.zeros(x.shape[1]), jac=gradient, hess=hessian, method="trust-exact").x
    # Near its minimum the loss is flat to float64's last digit; the gradient still shows its place.
    return np.asarray(root(gradient, nearly, jac=hessian, tol=1e-12).x)


UNCALIBRATED = Calibration((1.0,), 0.0)
"""The calibration that leaves a probability, given as its logit, as it is."""
