from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.evaluation.ensemble import Scored, agreement, simplex, tuned


def scored(columns: list[list[float]], label: list[int], question: list[int]) -> Scored:
    return Scored(np.array(question), np.array(label), np.array(columns, np.float64).T)


QUESTION = [0, 0, 0, 1, 1, 2, 2]
LABEL = [1, 0, 0, 0, 1, 1, 0]


def test_the_grid_has_all_weights_of_sum_1_the_most_even_first() -> None:
    grid = simplex(3, 20)
    assert len(grid) == len(set(grid)) == 231 and all(sum(weights) == pytest.approx(1) for weights in grid)
    assert sorted(grid[0]) == [0.3, 0.35, 0.35] and set(grid[-3:]) == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    assert simplex(2, 2) == [(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)]


def test_two_models_that_err_on_different_questions_are_better_together() -> None:
    first = [3.0, 0, 0, 2, 1, 0, 5]
    second = [0.0, 1, 0, 0, 9, 9, 0]
    both = scored([first, second], LABEL, QUESTION)
    alone = [both.value(weights, "P@1", "raw") for weights in ((1, 0), (0, 1))]
    assert alone == pytest.approx([1 / 3, 2 / 3])
    weights, value = tuned(both, "P@1", "raw")
    assert value == 1.0 and weights == (0.5, 0.5)


def test_a_model_of_no_use_gets_no_weight() -> None:
    noise = [0.0, 9, 0, 9, 0, 0, 9]
    good = [1.0, 0, 0, 0, 1, 1, 0]
    assert tuned(scored([noise, good], LABEL, QUESTION), "MAP", "raw")[0][1] > 0.85


def test_a_grid_of_too_many_models_is_refused() -> None:
    with pytest.raises(ValueError, match="5 models: a grid of 20 parts is for at most 4; give trials"):
        tuned(scored([[0.0] * 7] * 5, LABEL, QUESTION), "MAP", "raw")


def test_agreement_is_the_share_of_the_head_s_correct_answers() -> None:
    heads = scored([[1, 0, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 1], [0, 1, 0, 1, 0, 0, 1]], LABEL, QUESTION)
    teachers = scored([[1, 0, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1, 0]], LABEL, QUESTION)
    shares = agreement(heads, teachers)
    assert shares[:2].tolist() == [pytest.approx([2 / 3, 2 / 3]), [1.0, 0.0]]
    assert np.isnan(shares[2]).all()


def test_of_equal_scores_the_first_is_the_answer() -> None:
    tied, first = scored([[0.0] * 7], LABEL, QUESTION), scored([[1.0, 0, 0, 1, 0, 1, 0]], LABEL, QUESTION)
    assert agreement(tied, first).tolist() == [[1.0]]
