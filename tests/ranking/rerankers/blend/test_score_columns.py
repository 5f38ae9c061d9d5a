"""Named scores as columns, standardised within the list, and their weighted sum."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.rerankers.blend.score_columns import (
    EXIT,
    RETRIEVAL,
    WeightedSum,
    column,
    known_names,
    standardised,
)
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, StageScore

QUESTION = Question("q1", "Which?")
Indexes = tuple[float | None, float | None]


def listed(*index_scores: Indexes, stages: tuple[tuple[str, tuple[float, ...]], ...] = ()) -> RankedList:
    """Passages with (BM25's score, the dense one), and for each stage their scores."""
    candidates = []
    for n, (bm25, dense) in enumerate(index_scores):
        passage = Passage(f"d{n}#0", f"d{n}", "", "", 0, 4, "Text", ())
        hit = Hit("q1", "Which?", n + 1, 1 / (61 + n), bm25, None, dense, None, passage)
        candidates.append(
            Candidate(hit, None, n, tuple(StageScore(key, scores[n], 1) for key, scores in stages))
        )
    return RankedList(QUESTION, tuple(candidates))


def test_each_name_is_the_score_that_it_says() -> None:
    ranked = listed((3.0, 0.5), (2.0, 0.75), stages=(("a", (1.0, -1.0)),))
    assert column(ranked, "bm25").tolist() == [3.0, 2.0]
    assert column(ranked, "dense").tolist() == [0.5, 0.75]
    assert column(ranked, "fused").tolist() == [round(1 / 61, 6), round(1 / 62, 6)]
    assert column(ranked, "log_rank").tolist() == [0.0, round(-log(2), 6)]
    assert column(ranked, "a").tolist() == [1.0, -1.0]


def test_what_an_index_did_not_return_is_like_the_worst_that_it_did() -> None:
    ranked = listed((3.0, None), (None, None), (1.5, None))
    assert column(ranked, "bm25").tolist() == [3.0, 1.5, 1.5]
    assert column(ranked, "dense").tolist() == [0.0] * 3


def test_a_data_set_s_candidates_have_what_the_set_says_of_their_retrieval() -> None:
    """Its hits stand for no search: their ranks are places in the set's list."""
    ranked = listed((None, None), (None, None), (None, None))
    said = ({"bm25": -1.0, "log_rank": -0.5}, {"bm25": 2.0, "log_rank": 1.5}, {"log_rank": -1.0, "place": 3})
    ranked = replace(
        ranked,
        candidates=tuple(replace(c, retrieval=each) for c, each in zip(ranked.candidates, said, strict=True)),
    )
    assert column(ranked, "bm25").tolist() == [-1.0, 2.0, -1.0]
    assert column(ranked, "dense").tolist() == [0.0] * 3
    assert column(ranked, "log_rank").tolist() == [-0.5, 1.5, -1.0]
    assert column(ranked, "fused").tolist() == [round(1 / (61 + n), 6) for n in range(3)]


def test_a_candidate_without_a_stage_s_score_is_named() -> None:
    ranked = listed((1.0, None), stages=(("a", (1.0,)),))
    with pytest.raises(
        ValueError, match=r"d0#0 of question q1 has no score 'b'; it has a, bm25, dense, fused, log_rank"
    ):
        column(ranked, "b")


def test_a_column_is_standardised_over_its_own_list() -> None:
    values, question = np.array([1.0, 2.0, 3.0, 5.0, 9.0]), np.array([0, 0, 0, 1, 1])
    root = (3 / 2) ** 0.5
    assert standardised(values, question).tolist() == pytest.approx([-root, 0.0, root, -1.0, 1.0])


@pytest.mark.parametrize("size", [1, 3, 10, 49])
def test_equal_scores_are_all_0(size: int) -> None:
    """0.1 summed up and divided again is not 0.1: a deviation of nothing but rounding would be blown up to
    1."""
    assert standardised(np.full(size, 0.1), np.zeros(size, np.int64)).tolist() == [0.0] * size


def test_an_empty_list_has_no_scores() -> None:
    assert WeightedSum.of({"bm25": 1.0, "log_rank": 1.0}).scores(listed()).tolist() == []


def test_the_sum_by_hand() -> None:
    """Two candidates: z is 1 and -1 in each column that tells them apart."""
    ranked = listed((3.0, 0.5), (2.0, 0.75), stages=(("a", (4.0, 4.0)),))
    weighted = WeightedSum.of({"bm25": 2.0, "dense": 0.5, "a": 9.0})
    assert weighted.scores(ranked).tolist() == pytest.approx([1.5, -1.5])
    # Whatever the order of the table.
    assert WeightedSum.of({"a": 9.0, "dense": 0.5, "bm25": 2.0}) == weighted


scores = st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 6)), min_size=1, max_size=12)


@given(lists=st.lists(scores, min_size=1, max_size=5))
def test_a_list_among_others_gets_what_it_gets_alone_to_the_bit(lists: list[list[float]]) -> None:
    together = standardised(
        np.concatenate(lists), np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    )
    alone = [standardised(np.array(each), np.zeros(len(each), np.int64)) for each in lists]
    assert together.tolist() == np.concatenate(alone).tolist()


def test_the_exit_s_score_takes_the_place_of_its_column() -> None:
    weighted = WeightedSum.of({EXIT: 1.0, "bm25": 1.0})
    ranked = listed((3.0, None), (2.0, None))
    columns = weighted.columns(ranked)
    assert weighted.total(columns).tolist() == [1.0, -1.0]
    assert weighted.total(columns, exit_score=np.array([0.0, 7.0])).tolist() == [0.0, 0.0]


def test_the_names_that_a_stage_can_weigh() -> None:
    assert known_names(["a", "b"]) == ["a", "b", *RETRIEVAL]
    assert known_names(["a"], ["bm25"]) == ["a", "bm25", "fused", "log_rank"]
    for name in ("bm25", "log_rank", EXIT):
        with pytest.raises(
            ValueError, match=f"a stage before this one is named '{name}'.*give it another name"
        ):
            known_names([name])
