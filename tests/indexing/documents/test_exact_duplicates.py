from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.documents import exact_duplicates
from answermill.indexing.documents.exact_duplicates import id_keys, losers, text_keys
from answermill.indexing.passages.text import fold, normalise

HASHES = st.lists(st.integers(0, 5).map(lambda n: f"{n:032x}"), max_size=12)


def rows(lost_rows: dict[int, np.ndarray]) -> dict[int, list[int]]:
    return {unit: lost.tolist() for unit, lost in lost_rows.items()}


def test_the_first_in_file_order_stays_and_the_others_go() -> None:
    a, b, c = (digit * 32 for digit in "abc")
    lost = losers([(0, text_keys([a, b, a])), (1, text_keys([c, b])), (2, text_keys([]))])
    assert rows(lost) == {0: [2], 1: [1], 2: []}


@given(st.lists(HASHES, min_size=1, max_size=6), st.randoms())
def test_duplicates_do_not_depend_on_the_order_in_which_files_finish(
    files: list[list[str]], order: random.Random
) -> None:
    units = [(n, text_keys(hashes)) for n, hashes in enumerate(files)]
    shuffled = order.sample(units, len(units))
    lost = rows(losers(shuffled))
    seen: set[str] = set()
    for n, hashes in enumerate(files):
        expected = []
        for row, text_hash in enumerate(hashes):
            if text_hash in seen:
                expected.append(row)
            seen.add(text_hash)
        assert lost[n] == expected


def test_keys_that_differ_in_one_half_only_are_different() -> None:
    high, low = "1" * 16, "2" * 16
    assert rows(losers([(0, text_keys([high + high, high + low, low + high]))])) == {0: []}


def test_an_id_that_two_files_give_is_found_by_the_same_function() -> None:
    assert rows(losers([(7, id_keys(["x", "y"])), (9, id_keys(["z", "x", "x"]))])) == {7: [], 9: [1, 2]}


def test_no_files_have_no_duplicates_and_a_unit_given_twice_is_refused() -> None:
    assert losers([]) == {}
    with pytest.raises(ValueError, match=r"given twice: \[3\]"):
        losers([(3, id_keys(["x"])), (3, id_keys(["y"]))])


@given(st.text("aAß Σς\xa0\n\u3000İ\u0301", max_size=12).map(normalise))
def test_the_hash_of_a_stored_text_is_that_of_the_text_folded(text: str) -> None:
    assert exact_duplicates.text_hash(text) == hashlib.sha256(fold(text).encode()).hexdigest()[:32]
