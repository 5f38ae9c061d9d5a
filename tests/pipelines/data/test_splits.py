"""Splits share no key, are near their shares, and do not depend on any order."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.data.splits import (
    SPLITS,
    connected,
    near_duplicates,
    owners,
    similar,
    split,
    words_of,
)

LINKS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.sets(st.integers(0, 30), max_size=3), max_size=30
)


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
    splits = split(links, (0.6, 0.2, 0.2), seed)
    assert splits.keys() == links.keys()
    assert all(splits[one] == splits[other] for one in links for other in links if links[one] & links[other])
    assert split(shuffled(links, seed), (0.6, 0.2, 0.2), seed) == splits
    assert all(
        owner == splits[q] for key, owner in owners(links, splits).items() for q in links if key in links[q]
    )


def test_shares_are_met_as_well_as_the_groups_allow() -> None:
    alone = {f"q{n}": [n] for n in range(1000)}
    splits = split(alone, (0.8, 0.1, 0.1))
    assert [list(splits.values()).count(name) for name in SPLITS] == [800, 100, 100]
    assert split(alone, (0.8, 0.1, 0.1), seed=1) != splits
    assert set(split(alone, (1, 0, 0)).values()) == {"train"}
    half = {f"q{n}": [min(n, 500)] for n in range(1000)}  # q500 and all after it hang together
    splits = split(half, (0.8, 0.1, 0.1))
    assert [list(splits.values()).count(name) for name in SPLITS] == [800, 100, 100] and splits[
        "q999"
    ] == "train"


def test_a_key_belongs_to_test_before_dev_before_train() -> None:
    links = {"a": [1, 2, 3], "b": [2, 3], "c": [3]}
    assert owners(links, {"a": "train", "b": "dev", "c": "test"}) == {1: "train", 2: "dev", 3: "test"}


def test_shares_are_three() -> None:
    with pytest.raises(ValueError):
        split({"a": [1]}, (0.5, 0.5))


# Near-duplicates.

SETS = st.lists(st.frozensets(st.sampled_from("abcdefghij"), max_size=8), max_size=25)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


@given(SETS, st.sampled_from([0.1, 1 / 3, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9, 1.0]))
def test_similar_pairs_are_those_that_comparing_all_gives(sets, threshold: float) -> None:
    every = [(a, b) for a, b in combinations(range(len(sets)), 2) if sets[a] and sets[b]]
    wanted = [(a, b) for a, b in every if jaccard(sets[a], sets[b]) >= threshold]
    assert sorted(similar(sets, threshold)) == wanted


def test_similar_pairs_of_many_questions_are_those_that_comparing_all_gives() -> None:
    generator = random.Random(0)
    words = [f"w{int(generator.paretovariate(0.7))}" for _ in range(3000)]
    sets = [frozenset(generator.choices(words, k=generator.randrange(1, 12))) for _ in range(700)]
    sets += [each - {min(each)} for each in sets[:200] if len(each) > 1]
    wanted = [(a, b) for a, b in combinations(range(len(sets)), 2) if jaccard(sets[a], sets[b]) >= 0.8]
    assert sorted(similar(sets, 0.8)) == wanted and len(wanted) > 80


def test_words_tell_a_question_from_others() -> None:
    assert words_of("When was the Suez Canal opened?") == {"when", "suez", "canal", "opened"}
    assert words_of("When did the SUEZ canal open?") != words_of("Who opened the Suez canal?")
    assert words_of("Where is America’s Cup held") == words_of("where is the America cup held?")
    assert words_of("What is it?") == {"what"} and words_of("Is it?") == {"is", "it"}


def test_near_duplicates_hang_together_over_others() -> None:
    asked = {
        "c": "Which year did the river flood the old town of Prague?",
        "a": "In which year did the river flood the old town in Prague",
        "b": "Which year did the river flood the old town of Prague badly?",
        "d": "Which year did the river flood the old town of Prague badly again?",
        "e": "Who flooded Prague?",
        "f": "???",
        "g": "!",
    }
    groups = near_duplicates(asked)
    assert groups == {"a": "a", "b": "a", "c": "a", "d": "a", "e": "e", "f": "f", "g": "f"}

    assert jaccard(words_of(asked["a"]), words_of(asked["d"])) < 0.8  # over b
    assert near_duplicates(dict(reversed(asked.items()))) == groups
    assert near_duplicates(asked, 1.0) == {**groups, "b": "b", "d": "d"}


@pytest.mark.parametrize("threshold", [0, -1, 1.01, float("nan")])
def test_a_threshold_is_a_similarity(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold is"):
        list(similar([], threshold))
