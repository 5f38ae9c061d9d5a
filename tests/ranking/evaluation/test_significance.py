from __future__ import annotations

from itertools import product
from math import erf

import numpy as np
import pytest

from answermill.ranking.evaluation.significance import bootstrap, compare, compare_shared, interval, moved


def test_wins_ties_and_losses_are_those_of_b() -> None:
    comparison = compare(np.array([0.0, 0.5, 1.0, 0.25]), np.array([1.0, 0.5, 0.5, 0.75]), rounds=100)
    assert (comparison.wins, comparison.ties, comparison.losses) == (2, 1, 1)
    assert comparison.difference == pytest.approx(0.25) and comparison.a == pytest.approx(0.4375)


def test_p_is_near_that_of_all_sign_patterns() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.random(10), generator.random(10) + 0.15
    moved = b - a
    exact = np.mean(
        [abs(np.dot(signs, moved)) >= abs(moved.sum()) - 1e-9 for signs in product((-1, 1), repeat=10)]
    )
    assert 0.01 < exact < 0.9
    assert compare(a, b, rounds=20_000).p == pytest.approx(exact, abs=1e-12)  # 1,024 patterns: all of them
    assert compare(a, b, rounds=1_000).p == pytest.approx(exact, abs=0.045)  # drawn


def test_random_patterns_are_counted_with_the_observed_one() -> None:
    """(count + 1) / (rounds + 1), so p is never 0."""
    a, b = np.zeros(40), np.linspace(0.5, 1, 40)
    assert compare(a, b, rounds=999).p == 1 / 1_000


def test_one_question_alone_says_nothing() -> None:
    result = compare(np.array([0.25]), np.array([0.75]))
    assert (result.p, result.low, result.high, result.wins) == (1, 0.5, 0.5, 1)


def test_equal_sides_differ_by_nothing() -> None:
    values = np.random.default_rng(0).random(50)
    comparison = compare(values, values.copy())
    assert (comparison.difference, comparison.low, comparison.high, comparison.p, comparison.ties) == (
        0,
        0,
        0,
        1,
        50,
    )


def test_the_interval_holds_the_difference_and_the_seed_decides_it() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.random(200), generator.random(200)
    comparison = compare(a, b, seed=3)
    assert comparison.low < comparison.difference < comparison.high
    assert compare(a, b, seed=3) == comparison != compare(a, b, seed=4)
    spread = (b - a).std() / np.sqrt(200)
    assert comparison.high - comparison.low == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="A has 2 questions and B 3"):
        compare(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        compare(np.zeros(0), np.zeros(0))


def test_wilcoxon_and_spearman_are_those_of_the_textbook() -> None:
    a, b = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.5]), np.array([0.3, 0.1, 0.6, 0.9, 0.8, 0.5])
    comparison = compare(a, b, rounds=100)
    # Differences .2 -.1 .3 .5 .3: ranks 2 1 3.5 5 3.5; W- = 1 of 15, and 2 of the 2⁵ patterns of signs have
    # no greater one.
    assert comparison.wilcoxon_p == pytest.approx(2 * 2 / 2**5)
    ranks_a, ranks_b = np.array([1, 2, 3, 4, 5.5, 5.5]), np.array([2, 1, 4, 6, 5, 3])
    assert comparison.spearman == pytest.approx(np.corrcoef(ranks_a, ranks_b)[0, 1])
    assert comparison.spearman_p is not None and 0 < comparison.spearman_p < 1


def test_wilcoxon_of_many_equal_differences_is_by_the_normal_distribution() -> None:
    comparison = compare(np.zeros(20), np.repeat([1.0, -1.0], [15, 5]), rounds=100)
    # All ranks are 10.5: W- = 52.5 of 210, and a tie of 20 takes (20³ - 20) / 48 off the variance.
    mean, variance = 105, (20 * 21 * 41) / 24 - (20**3 - 20) / 48
    z = (52.5 - mean) / np.sqrt(variance)
    assert comparison.wilcoxon_p == pytest.approx(1 + erf(z / np.sqrt(2)), rel=1e-6)


def test_where_nothing_differs_or_nothing_varies_there_is_no_rank_statistic() -> None:
    comparison = compare(np.ones(5), np.ones(5), rounds=10)
    assert (comparison.wilcoxon_p, comparison.spearman, comparison.spearman_p) == (1.0, None, None)


def test_values_that_differ_by_rounding_alone_have_no_rank_correlation() -> None:
    comparison = compare(np.array([0.1 + 0.2, 0.3, 0.3]), np.array([0.1, 0.2, 0.3]))
    assert (comparison.spearman, comparison.spearman_p) == (None, None)


def test_questions_that_one_side_lacks_are_left_out_and_rounding_moves_none() -> None:
    a, b = (
        {"only a": 1.0, "q1": 0.25, "q2": 1.0, "q3": 0.1 + 0.2},
        {"q3": 0.3, "q2": 0.5, "q1": 1.0, "only b": 0.0},
    )
    assert compare_shared(a, b, 100) == compare(np.array([0.25, 1.0, 0.3]), np.array([1.0, 0.5, 0.3]), 100)
    assert moved(a, b) == {"only a": "lost", "q1": "gained", "q2": "lost"}


def test_the_bootstrap_of_a_mean_is_the_interval_and_of_no_question_refused() -> None:
    values = np.random.default_rng(0).random(200)
    low, high = bootstrap(lambda places: float(values[places].mean()), 200)
    assert (low, high) == pytest.approx(interval(values), abs=0.01)
    assert bootstrap(lambda places: float(np.median(values[places])), 200)[0] < np.median(values)
    with pytest.raises(ValueError, match="no question"):
        bootstrap(lambda places: 0.0, 0)
