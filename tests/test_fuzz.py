"""Files that were damaged at random: the command line ends in a documented exit code, with a message and no
traceback.

`python -m benchmarks.faults --fuzz 10` throws for ten minutes, and at the steps that do work too.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fault_list.fault import Place
from benchmarks.fault_list.fuzz import TARGETS, mutated, throw_one

FAST = [target for target in TARGETS if not target.works]


@pytest.fixture(scope="module")
def sound(small_run: Path) -> Place:
    return Place(small_run.parent)


@settings(max_examples=6)
@given(target=st.sampled_from(FAST), seed=st.integers(0, 2**32))
def test_a_damaged_file_ends_in_a_documented_code(
    sound: Place, tmp_path_factory: pytest.TempPathFactory, target, seed: int
) -> None:
    ended, wrong = throw_one(sound, tmp_path_factory.mktemp("thrown"), target, seed)
    assert wrong == set(), ended
    assert ended.code == 0 or ended.err.count("answermill: ") >= 1 or "Usage" in ended.out


def test_a_file_is_nearly_always_another_after_it_was_damaged() -> None:
    whole = b'{"a": 1, "b": [true, "text"]}' * 20
    assert sum(mutated(whole, random.Random(seed)) != whole for seed in range(100)) > 95
