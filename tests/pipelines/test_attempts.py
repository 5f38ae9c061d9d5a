"""Two attempts at a unit at once leave what one leaves, in every step. `benchmarks/attempts.py` does so in
more rounds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.mark.nightly
def test_two_attempts_at_once_leave_what_one_leaves(tmp_path: Path) -> None:
    attempts = importlib.import_module("benchmarks.attempts")  # now: other tests import benchmarks anew
    result = attempts.measure(tmp_path, rounds=2)
    assert {name: result[f"mismatches_{name}"] for name in attempts.STEPS} == dict.fromkeys(attempts.STEPS, 0)
