"""Splits share no key, are near their shares, and do not depend on any order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.splits import SPLITS, connected, owners, split

LINKS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sets(st.integers(0, 30), max_size=3), max_size=30)


def shuffled(links: dict[str, set[int]], seed: int) -> dict[str, list[int]]:
    items = [(question, sorted(keys)) for question, keys in links.items()]
    generator = random.Random(seed)
    generator.shuffle(items)
    for _, keys in items:
        generator.shuffle(keys)
    return dict(items)


def test_questions_hang_together_over_others() -> None:
    links = {"a": [1], "b": [2], "c": [1, 2], "d": [], "e": [3], "f": [4, 3]}
    assert connected(links) == {"a": ["a", "b", "c"], "d": ["d"], "e": ["e", "f"]}


@given(LINKS, st.integers(0, 5))
def test_no_key_stands_in_two_splits_whatever_the_order(links, seed: int) -> None:
    found = split(links, (0.6, 0.2, 0.2), seed)
    assert found.keys() == links.keys()
    assert all(found[one] == found[other] for one in links for other in links if links[one] & links[other])
    assert split(shuffled(links, seed), (0.6, 0.2, 0.2), seed) == found
    assert all(owner == found[q] for key, owner in owners(links, found).items() for q in links if key in links[q])


def test_shares_are_met_as_well_as_the_groups_allow() -> None:
    alone = {f"q{n}": [n] for n in range(1000)}
    found = split(alone, (0.8, 0.1, 0.1))
    assert [list(found.values()).count(name) for name in SPLITS] == [800, 100, 100]
    assert split(alone, (0.8, 0.1, 0.1), seed=1) != found
    assert set(split(alone, (1, 0, 0)).values()) == {"train"}
    half = {f"q{n}": [min(n, 500)] for n in range(1000)}  # q500 and all after it hang together
    found = split(half, (0.8, 0.1, 0.1))
    assert [list(found.values()).count(name) for name in SPLITS] == [800, 100, 100] and found["q999"] == "train"


def test_a_key_belongs_to_test_before_dev_before_train() -> None:
    links = {"a": [1, 2, 3], "b": [2, 3], "c": [3]}
    assert owners(links, {"a": "train", "b": "dev", "c": "test"}) == {1: "train", 2: "dev", 3: "test"}


def test_shares_are_three() -> None:
    with pytest.raises(ValueError):
        split({"a": [1]}, (0.5, 0.5))
