"""Tests of a risk by counts, in a fixed order (Learn then Test, Angelopoulos et al., arXiv:2110.01052, 2021).

Each choice, such as a schedule or a bar, is tested against "its risk is above δ" on questions that have not
chosen it. The order of the tests is fixed before, and the first failure ends them, so that all of them
together err with probability ε at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from answermill.schemas.arrays import Floats, Ints


def fixed_sequence(lost: Sequence[int] | Ints, questions: int | Ints, delta: float, epsilon: float) -> int:
    """Number of choices, from the first on, for which "its risk is above δ" is rejected at level ε without a
    failure. `lost`: losses of each; `questions`: of how many, one number or one for each choice."""
    failures = np.flatnonzero(binomial_tails(lost, questions, delta) > epsilon)
    return int(failures[0]) if len(failures) else len(lost)


def binomial_tails(losses: npt.ArrayLike, questions: npt.ArrayLike, delta: float) -> Floats:
    """`binomial_tail` of each choice [n]."""
    return np.asarray(binom.cdf(losses, questions, delta))


def binomial_tail(losses: int, questions: int, delta: float) -> float:
    """P(Bin(questions, δ) ≤ losses): probability of at most that many losses at a risk of δ; at a higher risk
    it is smaller."""
    return float(binom.cdf(losses, questions, delta))


def questions_needed(delta: float, epsilon: float) -> int:
    """Least number of questions on which a choice that loses none of them passes: (1 - δ)^n ≤ ε."""
    return math.ceil(math.log(epsilon) / math.log1p(-delta))
