"""Counts: dataclasses of numbers that add up, are stored, and say which of their sums do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.runs.counts import (
    Counts,
    Peak,
    StepCounts,
    Tally,
    Time,
    by_name,
    counts_by_reason,
    flat,
    milliseconds,
)
from answermill.pipelines.specs.index import IndexCounts


@dataclass(frozen=True)
class Tree(Counts):
    apples: int = 0
    tallest: Peak = 0
    of_colour: Mapping[str, int] = by_name()


@dataclass(frozen=True)
class Orchard(StepCounts):
    baskets: int = 0
    eaten: int = 0
    heaviest: Peak = 0
    trees: Mapping[str, Tree] = by_name()
    oldest: Tree = field(default_factory=Tree)
    picking_ms: int = milliseconds("apples picked", "baskets")
    eating_ms: int = milliseconds("apples eaten", "eaten")

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"baskets": ("eaten", "rejects")}


numbers = st.integers(0, 10**12)
named = st.dictionaries(st.sampled_from(["red", "green", "yellow"]), numbers)
trees = st.builds(Tree, numbers, numbers, named)
orchards = st.builds(
    Orchard,
    failed_units=numbers,
    rejected=named,
    baskets=numbers,
    heaviest=numbers,
    trees=st.dictionaries(st.sampled_from(["left", "right"]), trees),
    oldest=trees,
)


def test_numbers_add_up_and_of_a_peak_the_larger_stays_in_every_depth() -> None:
    first = Orchard(baskets=1, heaviest=9, trees={"left": Tree(2, 30, {"red": 2})}, oldest=Tree(tallest=40))
    more = {"left": Tree(1, 50, {"green": 1}), "right": Tree(3)}
    second = Orchard(baskets=2, heaviest=7, trees=more, oldest=Tree(4))
    both = first + second
    assert (both.baskets, both.heaviest, both.oldest) == (3, 9, Tree(4, 40))
    assert both.trees == {"left": Tree(3, 50, {"red": 2, "green": 1}), "right": Tree(3)}
    assert first.trees == {"left": Tree(2, 30, {"red": 2})}, "the addends are as they were"


@given(orchards, orchards, orchards)
def test_units_add_up_in_any_grouping_and_zeros_add_nothing(a: Orchard, b: Orchard, c: Orchard) -> None:
    assert (a + b) + c == a + (b + c) and a + b == b + a
    assert a + Orchard() == a


@given(orchards)
def test_what_is_stored_is_read_back_without_its_zeros(counts: Orchard) -> None:
    stored = counts.to_json()
    assert all(value for value in stored.values())
    assert Orchard.from_json(stored).to_json() == stored
    assert dict(counts.flat()) == dict(flat(stored))
    assert all(type(number) is int for _, number in counts.flat())


def test_stored_counts_are_read_as_the_same_dataclasses() -> None:
    counts = Orchard(baskets=2, eaten=2, trees={"left": Tree(2, 30, {"red": 2})})
    assert counts.to_json() == {
        "baskets": 2,
        "eaten": 2,
        "trees": {"left": {"apples": 2, "tallest": 30, "of_colour": {"red": 2}}},
    }
    assert Orchard.from_json(counts.to_json()) == counts and Orchard.from_json({}) == Orchard()
    assert dict(counts.flat()) == {
        "baskets": 2,
        "eaten": 2,
        "trees.left.apples": 2,
        "trees.left.tallest": 30,
        "trees.left.of_colour.red": 2,
    }


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"pears": 1}, "^pears: Unexpected keyword argument"),
        ({"baskets": "many"}, "^baskets: Input should be a valid integer"),
        ({"trees": {"left": {"pears": 1}}}, "^trees.left.pears: "),
        ({"rejected": 3}, "^rejected: Input should be a valid (dictionary|mapping)"),
    ],
)
def test_counts_that_are_not_such_are_refused_with_their_place(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Orchard.from_json(values)


def test_names_of_peaks_are_those_of_flat() -> None:
    counts = Orchard(heaviest=1, trees={"left": Tree(1, 30)}, oldest=Tree(tallest=40))
    assert counts.peaks() == {"heaviest", "trees.left.tallest", "oldest.tallest"}
    assert counts.peaks() <= dict(counts.flat()).keys()
    assert Tally({"a.example": 3}).peaks() == set()


def test_times_have_their_items_and_seconds_are_their_sum() -> None:
    counts = Orchard(baskets=4, eaten=3, picking_ms=1_500)
    assert list(counts.times()) == [(Time("apples picked", "baskets", 0.001), 1.5, 4)], "eating took no time"
    assert counts.seconds == 1.5 and Orchard(picking_ms=500, eating_ms=250).seconds == 0.75


def test_times_are_of_the_items_that_an_earlier_run_had_not_worked_on() -> None:
    counts = IndexCounts(passages=9, taken_over=4, vectors_taken_over=7, bm25_ms=500, dense_ms=250)
    assert [(time.work, items) for time, _, items in counts.times()] == [("BM25", 5), ("dense vectors", 2)]


def test_a_sum_that_does_not_hold_is_said_with_its_numbers_and_raised() -> None:
    sound = Orchard(baskets=1_500, eaten=1_400, rejected={"bruised": 60, "sour": 40})
    assert sound.rejects == 100 and list(sound.wrong_sums()) == []
    sound.check_sums()
    lost = Orchard(baskets=1_501, eaten=1_400, rejected={"bruised": 60, "sour": 40})
    assert list(lost.wrong_sums()) == ["1,501 baskets, but 1,400 eaten + 100 rejects"]
    with pytest.raises(RuntimeError, match=r"^1,501 baskets, but 1,400 eaten"):
        lost.check_sums()


def test_reasons_are_told_the_largest_first_and_equal_ones_by_name() -> None:
    assert counts_by_reason({"sour": 2, "bruised": 1_000, "green": 2}) == "1,000 bruised, 2 green, 2 sour"
    assert counts_by_reason({}) == ""
