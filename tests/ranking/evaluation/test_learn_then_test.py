"""The tests of a risk are exact, and the first failure ends them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from answermill.ranking.evaluation.learn_then_test import binomial_tail, fixed_sequence, questions_needed


def test_the_binomial_tail_is_exact() -> None:
    for losses, questions, delta in (
        (0, 45, Fraction(1, 20)),
        (3, 63, Fraction(1, 20)),
        (40, 400, Fraction(1, 8)),
    ):
        ways = (
            math.comb(questions, i) * delta**i * (1 - delta) ** (questions - i) for i in range(losses + 1)
        )
        assert binomial_tail(losses, questions, float(delta)) == pytest.approx(float(sum(ways)), rel=1e-12)
    assert binomial_tail(10, 10, 0.3) == pytest.approx(1)
    assert 0.5 < binomial_tail(250, 5_000, 0.05) < 0.54


def test_the_first_failure_ends_the_tests() -> None:
    passes = [binomial_tail(losses, 100, 0.05) <= 0.1 for losses in range(5)]
    assert passes == [True, True, False, False, False]
    assert fixed_sequence([0, 1, 0, 2, 0], 100, 0.05, 0.1) == 3
    assert fixed_sequence([2, 0, 0], 100, 0.05, 0.1) == 0
    assert fixed_sequence([0, 0], 100, 0.05, 0.1) == 2


def test_the_least_number_of_questions_on_which_none_lost_is_enough() -> None:
    needed = questions_needed(0.05, 0.1)
    assert needed == 45
    assert binomial_tail(0, needed, 0.05) <= 0.1 < binomial_tail(0, needed - 1, 0.05)


def test_each_choice_may_have_its_own_number_of_questions() -> None:
    assert fixed_sequence([0, 0], np.array([45, 44]), 0.05, 0.1) == 1
    assert fixed_sequence([0, 0], np.array([44, 45]), 0.05, 0.1) == 0
