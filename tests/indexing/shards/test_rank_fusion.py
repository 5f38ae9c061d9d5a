"""Merging over shards and fusing over sources: any order, any grouping, one result."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.shards.rank_fusion import Best, fuse, merge

SCORES = st.sampled_from([0.0, 0.5, 0.5001, 1.0, 2.0])  # few, so that most are tied
SCORED = st.dictionaries(
    st.text("ab0#é中😀", min_size=1, max_size=3), st.tuples(st.integers(0, 3), SCORES), max_size=20
)


def best_of(scored: dict[str, tuple[int, float]]) -> list[Best]:
    """One Best per shard, for passages {id: (shard, score)}."""
    parts = []
    for shard in range(4):
        here = [(passage_id, score) for passage_id, (s, score) in scored.items() if s == shard]
        ids, scores = [passage_id for passage_id, _ in here], np.array([score for _, score in here])
        parts.append(merge([Best.of(shard, np.arange(len(here)), ids, scores)], 100))
    return parts


def as_tuples(best: Best) -> list[tuple[float, str, int, int]]:
    ids = [passage_id.decode() for passage_id in best.ids.tolist()]
    return list(zip(best.scores.tolist(), ids, best.shards.tolist(), best.rows.tolist(), strict=True))


@given(SCORED, st.integers(1, 25), st.permutations(range(4)))
def test_merging_in_any_order_and_grouping_is_one_global_sort(
    scored: dict[str, tuple[int, float]], depth: int, order: list[int]
) -> None:
    parts = best_of(scored)
    at_once = as_tuples(merge(parts, depth))
    assert [(-score, passage_id) for score, passage_id, _, _ in at_once] == sorted(
        (-score, passage_id) for passage_id, (_, score) in scored.items()
    )[:depth]
    a, b, c, d = (parts[n] for n in order)
    assert as_tuples(merge([merge([a, b], depth), merge([c, d], depth)], depth)) == at_once
    assert as_tuples(merge([a, merge([b, merge([c, merge([d], depth)], depth)], depth)], depth)) == at_once


def test_nothing_is_the_zero_of_merge() -> None:
    one = Best.of(3, np.array([7]), ["d#0"], np.array([1.5]))
    assert as_tuples(merge([], 5)) == []
    assert as_tuples(merge([merge([], 5), one], 5)) == as_tuples(one) == [(1.5, "d#0", 3, 7)]


def test_a_tie_goes_to_the_smaller_id_whatever_its_shard() -> None:
    parts = [
        Best.of(0, np.array([0]), ["b#0"], np.array([1.0])),
        Best.of(1, np.array([0]), ["a#9"], np.array([1.0])),
    ]
    assert [t[1] for t in as_tuples(merge(parts, 1))] == ["a#9"]


def test_a_thousand_hits_travel_in_under_fifty_bytes_each() -> None:
    best = Best.of(0, np.arange(1000), [f"{n:016x}#{n % 10}" for n in range(1000)], np.arange(1000.0))
    assert len(pickle.dumps(best)) < 50_000


def test_fusion_sums_one_over_sixty_plus_rank() -> None:
    bm25 = Best.of(0, np.array([0, 1]), ["a", "b"], np.array([9.0, 8.0]))
    dense = Best.of(0, np.array([1, 2]), ["b", "c"], np.array([0.9, 0.8]))
    fused = fuse({"bm25": bm25, "dense": dense})
    assert [one.passage_id for one in fused] == ["b", "a", "c"]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62], abs=0)
    assert fused[0].sources == {"bm25": (8.0, 2), "dense": (0.9, 1)}
    assert fused[2].sources == {"dense": (0.8, 2)}
    assert (fused[2].shard, fused[2].row) == (0, 2)


def test_two_passages_with_swapped_ranks_tie_and_the_smaller_id_leads() -> None:
    there = Best.of(0, np.array([0, 1]), ["b", "a"], np.array([2.0, 1.0]))
    back = Best.of(0, np.array([1, 0]), ["a", "b"], np.array([2.0, 1.0]))
    fused = fuse({"bm25": there, "dense": back})
    assert fused[0].score == fused[1].score
    assert [one.passage_id for one in fused] == ["a", "b"]


def test_a_question_that_found_nothing_fuses_to_nothing() -> None:
    assert fuse({"bm25": merge([], 10), "dense": merge([], 10)}) == []
