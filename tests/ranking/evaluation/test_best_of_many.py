"""The best of many settings is taken only for a gain that chance does not explain."""

from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.evaluation.best_of_many import differences


def test_of_settings_that_differ_by_chance_alone_hardly_ever_one_is_taken() -> None:
    """The best of 30 gains in nearly every draw; 5 % of the draws may take it."""
    taken = highest = 0
    for seed in range(60):
        values = (np.random.default_rng(seed).random((30, 100)) < 0.5).astype(np.float64)
        gains = differences(values, 0, rounds=400)
        taken += gains.best() is not None
        highest += gains.mean.max() > 0.05
    assert highest > 40 and taken <= 6


def test_a_gain_on_most_questions_is_taken_and_the_larger_of_two() -> None:
    values = np.zeros((3, 50))
    values[1, :30] = values[2, :45] = 1
    gains = differences(values, 0)
    assert gains.best() == 2
    assert gains.low[1] > 0 and gains.mean.tolist() == pytest.approx([0, 0.6, 0.9])


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_a_gain_of_few_questions_is_never_taken(questions: int) -> None:
    values = np.zeros((2, questions))
    values[1] = 1
    assert differences(values, 0).best() is None


def test_the_same_seed_gives_the_same_intervals_and_no_question_is_refused() -> None:
    values = np.random.default_rng(0).random((4, 30))
    one, other = differences(values, 1, seed=3), differences(values, 1, seed=3)
    assert np.array_equal(one.low, other.low) and one.low[1] == one.high[1] == 0
    with pytest.raises(ValueError, match="no question"):
        differences(np.zeros((2, 0)), 0)
