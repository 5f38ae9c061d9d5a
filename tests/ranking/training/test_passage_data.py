"""Labelled passages as PEASI learns from them: what each model reads, and what cannot be learnt from."""

from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.rerankers.peasi.peasi_model import Variant
from answermill.ranking.training.passages.passage_data import PassageData
from tests.ranking.training.test_passages import QUESTIONS, model, passage, tokeniser


def data(variant: Variant, slots: int = 3) -> PassageData:
    return PassageData.of(QUESTIONS, model(variant, slots), tokeniser())


def test_a_window_is_a_row_of_places_with_sentences_and_correct_ones() -> None:
    windows = data("joint")
    assert windows.windows.passage.tolist() == [0, 1, 2, 2, 3, 4, 5, 6] and windows.counts.tolist() == [
        1,
        1,
        2,
        1,
        1,
        1,
        1,
    ]

    # Five sentences in three slots, of which the third and the last are correct.
    of_third = windows.windows.passage == 2
    assert windows.filled[of_third].tolist() == [[True, True, True], [True, True, False]]
    assert windows.right[of_third].tolist() == [[False, False, True], [False, True, False]]
    assert windows.labels.tolist() == [1, 0, 1, 1, 0, 0, 0]


def test_there_are_as_many_places_as_slots_even_where_all_passages_are_short() -> None:
    assert data("easi", 9).filled.shape == (3, 9)


def test_passages_without_a_correct_sentence_are_of_pr_and_of_easi_only_beside_it() -> None:
    assert (
        data("pr").windows.passage.tolist() == []
        and data("pr").lengths.tolist() == data("pr").passages.lengths.tolist()
    )
    assert data("easi").labels.tolist() == [1, 1, 1] and not data("easi").apart
    assert data("mtl1").read.tolist() == [True, False, True, True, False, False, False]
    assert data("joint").read.all()


def test_lengths_are_those_of_what_is_read() -> None:
    both, pr = data("mtl0"), data("pr")
    windows = np.bincount(both.windows.passage, both.windows.pairs.lengths)
    assert both.lengths.tolist() == (pr.lengths + windows * both.read).tolist()


def test_a_window_that_no_text_fits_beside_is_refused_before_one_is_met() -> None:
    with pytest.raises(ValueError, match="texts do not fit into 16 tokens"):
        PassageData.of(
            [[passage("q", 0, "No.", right=[0]), passage("q", 1, "No.")]], model("mtl1", 20), tokeniser(16)
        )
