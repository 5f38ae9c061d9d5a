"""Two attempts at a unit at once leave what one leaves, in every step. `benchmarks/attempts.py` does so in more rounds."""

from __future__ import annotations

from pathlib import Path

from benchmarks.attempts import STEPS, measure


def test_two_attempts_at_once_leave_what_one_leaves(tmp_path: Path) -> None:
    result = measure(tmp_path, rounds=2)
    assert {name: result[f"mismatches_{name}"] for name in STEPS} == dict.fromkeys(STEPS, 0)
