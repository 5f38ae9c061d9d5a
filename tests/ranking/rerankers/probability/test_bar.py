"""The promise of a bar holds where the truth is known, and is refused where it cannot be given."""

from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.rerankers.probability.bar import FirstAnswers, promised


def drawn(generator: np.random.Generator, questions: int, flattery: float = 0.0) -> FirstAnswers:
    """Answers that are right with their probability, less `flattery`."""
    probability = generator.random(questions)
    return FirstAnswers(probability, generator.random(questions) < probability - flattery)


def test_a_promise_is_kept_over_nine_in_ten_sets_of_labels_though_the_probabilities_flatter() -> None:
    generator = np.random.default_rng(0)
    bars = []
    for _ in range(300):
        halves = drawn(generator, 400, 0.1), drawn(generator, 400, 0.1)
        try:
            bars.append(promised(*halves, max_wrong=0.3).probability)
        except ValueError:
            bars.append(1.0)

    # Above a bar b the mean probability is (1 + b) / 2, so the true risk is 0.1 + (1 - b) / 2.
    broken = np.mean([0.1 + (1 - bar) / 2 > 0.3 for bar in bars])
    assert 0.0 < broken <= 0.1
    assert np.mean([bar < 0.8 for bar in bars]) > 0.5  # of 0.6, which nobody knows


def test_the_bar_is_the_lowest_that_passes_without_a_failure_above_it() -> None:
    probability = np.repeat([0.95, 0.85, 0.75, 0.65], 30)
    right = np.repeat([True, True, False, True], 30)
    half = FirstAnswers(probability, right)
    bar = promised(half, half, max_wrong=0.2)
    assert (bar.probability, bar.answered, bar.wrong) == (0.76, 60, 0)
    assert (
        "at most 20 % wrong, with confidence 0.9 (60 of 120 held-back questions answered" in bar.statement()
    )


def test_the_first_part_decides_where_the_tests_begin_and_the_second_whether_they_pass() -> None:
    sure, wrong = np.full(40, 0.9), np.zeros(40, np.bool_)
    with pytest.raises(ValueError, match=r"at the surest, 0\.9, 40 of 40 held-back answers are wrong"):
        promised(FirstAnswers(sure, ~wrong), FirstAnswers(sure, wrong), max_wrong=0.1)


def test_too_few_answers_are_refused_with_the_number_that_it_takes() -> None:
    few = FirstAnswers(np.full(10, 0.9), np.ones(10, np.bool_))
    with pytest.raises(
        ValueError, match=r"0 of 10 held-back answers are wrong; without a wrong one it takes 22"
    ):
        promised(few, few, max_wrong=0.1)


def test_more_confidence_or_fewer_wrong_answers_give_no_lower_bar() -> None:
    generator = np.random.default_rng(1)
    halves = drawn(generator, 2_000), drawn(generator, 2_000)
    usual = promised(*halves, max_wrong=0.2).probability
    assert usual < promised(*halves, max_wrong=0.1).probability
    assert usual <= promised(*halves, max_wrong=0.2, confidence=0.999).probability
