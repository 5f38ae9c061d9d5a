"""A calibration finds what made the labels, and is the same for the same lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from answermill.ranking.evaluation.risk_coverage import calibration_error
from answermill.ranking.rerankers.probability.calibrating import (
    LabelledList,
    calibrate,
    first_probabilities,
    fitting,
    held_out,
)
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import RankedList
from tests.ranking.rerankers.probability.labelled_lists import PLAN, STAGES, drawn


def test_probabilities_are_frequencies_on_questions_that_they_were_not_fitted_on() -> None:
    file = calibrate(drawn(600), PLAN, "labels.tsv", "0")
    others = drawn(2_000, seed=1)
    probability = first_probabilities(others, file.calibration, STAGES)
    right = np.array([labelled.is_right for labelled in others])
    assert calibration_error(probability, right, 10) < 0.06
    assert np.mean((probability - right) ** 2) < 0.75 * right.mean() * (1 - right.mean())


def test_the_figures_are_of_folds_and_hold_the_value_in_their_intervals() -> None:
    lists = drawn(300)
    file = calibrate(lists, PLAN, "labels.tsv", "0")
    probability, right = held_out(lists, STAGES)
    assert file.brier.value == pytest.approx(np.mean((probability - right) ** 2))
    assert file.ece.value == pytest.approx(calibration_error(probability, right, 10))
    assert file.brier.low < file.brier.value < file.brier.high
    assert file.ece.low < file.ece.high


def test_the_second_part_changes_no_probability() -> None:
    lists = drawn(100)
    is_first = fitting([labelled.question_id for labelled in lists])
    turned = [
        labelled if first else replace(labelled, right=(not labelled.right[0], *labelled.right[1:]))
        for labelled, first in zip(lists, is_first, strict=True)
    ]
    one, other = (calibrate(each, PLAN, "labels.tsv", "0") for each in (lists, turned))
    assert 15 < is_first.sum() < 50
    assert (one.weights, one.bias, one.fitted) == (other.weights, other.bias, other.fitted)
    assert one.held_back != other.held_back


def test_the_same_lists_give_the_same_file() -> None:
    assert calibrate(drawn(80), PLAN, "l", "0") == calibrate(drawn(80), PLAN, "l", "0")
    assert calibrate(drawn(80), PLAN, "l", "0") != calibrate(drawn(80), PLAN, "l", "0", seed=1)


def test_an_empty_list_counts_as_declined() -> None:
    empty = LabelledList(RankedList(Question("none", "Why?"), ()), (), False)
    lists = [*drawn(80), empty]
    file = calibrate(lists, PLAN, "l", "0")
    assert 0.0 in file.fitted.probability + file.held_back.probability
    assert file.questions == 81


def test_a_plan_that_keeps_one_candidate_is_calibrated() -> None:
    lists = [
        replace(one, ranked=RankedList(one.ranked.question, one.ranked.candidates[:1]), right=one.right[:1])
        for one in drawn(80)
    ]
    file = calibrate(lists, PLAN, "l", "0")
    assert file.questions == 80
    assert file.brier.value < 0.25


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        (drawn(9), "9 labelled questions; a calibration needs 10 and more"),
        ([replace(one, right=(False,) * 5) for one in drawn(50)], "0 of .* answers are right"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(lists: list[LabelledList], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        calibrate(lists, PLAN, "labels.tsv", "0")
