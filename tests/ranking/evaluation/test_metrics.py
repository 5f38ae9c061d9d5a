"""The metrics against their definitions, by brute force over the orders of ties, and against ir-measures."""

from __future__ import annotations

from itertools import permutations
from math import log2

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.evaluation.metrics import PROTOCOLS, UNJUDGED, Judged, measure, unjudged_share

METRICS = ("P@1", "P@3", "R@2", "MAP", "MRR", "nDCG@3")
List = tuple[list[float], list[int]]


def defined(metric: str, labels: list[int]) -> float:
    """The metric of labels in ranked order, as the textbooks define it."""
    correct = [label > 0 for label in labels]
    if metric.startswith("P@"):
        return sum(correct[: int(metric[2:])]) / int(metric[2:])
    if not any(correct):
        return 0.0
    if metric.startswith("R@"):
        return sum(correct[: int(metric[2:])]) / sum(correct)
    if metric == "MRR":
        return 1 / (1 + correct.index(True))

    if metric == "MAP":
        return sum(sum(correct[: n + 1]) / (n + 1) for n in range(len(labels)) if correct[n]) / sum(correct)

    cut = int(metric.removeprefix("nDCG@"))

    def gain(order: list[int]) -> float:
        return sum(label / log2(n + 2) for n, label in enumerate(order[:cut]))

    return gain(labels) / gain(sorted(labels, reverse=True))


def over_all_orders(metric: str, scores: list[float], labels: list[int]) -> list[float]:
    """The metric of every order that the scores allow."""
    values = []
    for order in permutations(range(len(scores))):
        ranked = [scores[n] for n in order]
        if ranked == sorted(ranked, reverse=True):
            values.append(defined(metric, [labels[n] for n in order]))
    return values


a_list = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n, max_size=n),
        st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n),
    )
)


@given(st.lists(a_list, min_size=1, max_size=3))
def test_expectation_and_bounds_are_those_of_all_orders_of_the_ties(lists: list[List]) -> None:
    values = measure(Judged.of(lists), METRICS)
    for metric in METRICS:
        for n, (scores, labels) in enumerate(lists):
            orders = over_all_orders(metric, scores, labels)
            bounds = values[metric]
            assert bounds.expected[n] == pytest.approx(np.mean(orders), abs=1e-12)
            assert (bounds.worst[n], bounds.best[n]) == pytest.approx((min(orders), max(orders)), abs=1e-12)


@given(st.data())
def test_equal_to_ir_measures_where_nothing_is_tied(data: st.DataObject) -> None:
    lists, qrels, run = [], {}, {}
    for n in range(data.draw(st.integers(1, 4))):
        labels = data.draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=1, max_size=30))
        scores = data.draw(st.permutations(range(len(labels))))
        lists.append(([float(s) for s in scores], labels))
        qrels[f"q{n}"] = {f"d{i}": label for i, label in enumerate(labels)}
        run[f"q{n}"] = {f"d{i}": float(s) for i, s in enumerate(scores)}

    values = measure(Judged.of(lists), ("P@1", "P@5", "R@5", "MAP", "MRR", "nDCG@10"))
    theirs = {"P@1": "P@1", "P@5": "P@5", "R@5": "R@5", "MAP": "AP", "MRR": "RR", "nDCG@10": "nDCG@10"}
    for ours, name in theirs.items():
        measured = {
            m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
        }
        assert [measured[f"q{n}"] for n in range(len(lists))] == pytest.approx(
            values[ours].expected.tolist(), abs=1e-9
        )


def test_a_correct_candidate_that_is_not_ranked_is_not_found_but_counts() -> None:
    judged = Judged(
        1, np.zeros(3, int), np.array([2.0, 1.0, 0.0]), np.array([1, 0, 1]), np.array([True, True, False])
    )
    values = measure(judged, ("MAP", "R@5", "nDCG@5", "MRR"))
    assert values["MAP"].expected[0] == values["R@5"].expected[0] == 0.5
    assert values["nDCG@5"].expected[0] == pytest.approx(1 / (1 + 1 / log2(3)))
    assert values["MRR"].expected[0] == 1


def test_ten_thousand_tied_candidates_have_the_mean_reciprocal_rank_of_chance() -> None:
    values = measure(Judged.of([([1.0] * 10_000, [1] + [0] * 9_999)]), ("MRR", "P@1"))
    harmonic = sum(1 / rank for rank in range(1, 10_001))
    assert values["MRR"].expected[0] == pytest.approx(harmonic / 10_000, rel=1e-9)
    assert values["P@1"].expected[0] == pytest.approx(1e-4)
    assert values["MRR"].worst[0] == pytest.approx(1e-4) and values["MRR"].best[0] == 1


def test_a_constant_scorer_gets_full_marks_from_nobody_but_compat() -> None:
    judged = Judged.of([([0.0] * 4, [0, 0, 1, 0]), ([0.0] * 4, [0, 1, 0, 0])])
    values = measure(judged, ("MRR",))["MRR"]
    assert values.expected.mean() == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert values.best.mean() == 1


def test_each_protocol_keeps_what_it_says() -> None:
    judged = Judged.of([([1.0, 2.0], [0, 0]), ([1.0, 2.0], [1, 1]), ([1.0, 2.0], [0, 1])])
    kept = {protocol: judged.kept(protocol).tolist() for protocol in PROTOCOLS}
    assert kept == {
        "raw": [True, True, True],
        "answerable": [False, True, True],
        "clean": [False, False, True],
        "compat": [False, False, True],
    }


def test_an_unjudged_candidate_of_a_run_puts_no_question_into_a_protocol() -> None:
    judged = Judged.of([([2.0, 1.0], [1, UNJUDGED]), ([2.0, 1.0], [1, 0])])
    assert judged.kept("clean").tolist() == judged.kept("compat").tolist() == [False, True]


@given(st.lists(a_list, min_size=1, max_size=2), st.integers(1, 7))
def test_the_unjudged_share_is_its_expectation_over_the_orders_of_the_ties(
    lists: list[List], depth: int
) -> None:
    marked = [(scores, [UNJUDGED if label == 2 else label for label in labels]) for scores, labels in lists]
    share = unjudged_share(Judged.of(marked), depth, np.ones(len(lists), bool))
    inside = [min(depth, len(labels)) for _, labels in lists]
    unjudged = [
        np.mean(over_all_orders(f"P@{depth}", scores, [int(label == 2) for label in labels])) * depth
        for scores, labels in lists
    ]
    assert share == pytest.approx(sum(unjudged) / sum(inside))


def test_condensed_lists_leave_the_unjudged_out() -> None:
    judged = Judged.of([([3.0, 2.0, 1.0], [UNJUDGED, 1, 0])])
    assert measure(judged, ("P@1",))["P@1"].expected[0] == 0
    assert measure(judged.condensed(), ("P@1",))["P@1"].expected[0] == 1


def test_the_order_of_the_arrays_says_nothing() -> None:
    generator = np.random.default_rng(0)
    n = 200
    arrays = (
        generator.integers(0, 9, n),
        generator.integers(0, 4, n).astype(float),
        generator.integers(0, 2, n),
    )
    order = generator.permutation(n)
    one = measure(Judged(9, *arrays, np.ones(n, bool)))
    other = measure(Judged(9, *(array[order] for array in arrays), np.ones(n, bool)))
    for metric, values in one.items():
        assert other[metric].expected == pytest.approx(values.expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["P", "P@0", "map", "NDCG@10", "R@-1", "Recall@5"])
def test_an_unknown_metric_is_refused_with_the_known_ones(metric: str) -> None:
    with pytest.raises(ValueError, match=r"unknown metric .* known: MAP, MRR"):
        measure(Judged.of([([1.0], [1])]), (metric,))


def test_no_question_and_empty_lists_are_no_error() -> None:
    assert len(measure(Judged.of([]))["MAP"].expected) == 0
    assert measure(Judged.of([([], []), ([1.0], [1])]))["MAP"].expected.tolist() == [0, 1]
