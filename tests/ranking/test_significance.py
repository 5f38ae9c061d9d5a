from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ranking.significance import compare


def test_wins_ties_and_losses_are_those_of_b() -> None:
    made = compare(np.array([0.0, 0.5, 1.0, 0.25]), np.array([1.0, 0.5, 0.5, 0.75]), rounds=100)
    assert (made.wins, made.ties, made.losses) == (2, 1, 1)
    assert made.difference == pytest.approx(0.25) and made.a == pytest.approx(0.4375)


def test_p_is_near_that_of_all_sign_patterns() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.random(10), generator.random(10) + 0.15
    moved = b - a
    exact = np.mean([abs(np.dot(signs, moved)) >= abs(moved.sum()) - 1e-9 for signs in product((-1, 1), repeat=10)])
    assert 0.01 < exact < 0.9
    assert compare(a, b, rounds=20_000).p == pytest.approx(exact, abs=0.015)


def test_equal_sides_differ_by_nothing() -> None:
    values = np.random.default_rng(0).random(50)
    made = compare(values, values.copy())
    assert (made.difference, made.low, made.high, made.p, made.ties) == (0, 0, 0, 1, 50)


def test_the_interval_holds_the_difference_and_the_seed_decides_it() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.random(200), generator.random(200)
    made = compare(a, b, seed=3)
    assert made.low < made.difference < made.high
    assert compare(a, b, seed=3) == made != compare(a, b, seed=4)
    spread = (b - a).std() / np.sqrt(200)
    assert made.high - made.low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="A has 2 questions and B 3"):
        compare(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        compare(np.zeros(0), np.zeros(0))
