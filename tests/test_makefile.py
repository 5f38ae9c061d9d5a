"""Commands of the Makefile that say whether something was tested."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("setting", "fails"), [("MAY_SKIP=", True), ("MAY_SKIP=1", False)])
def test_a_python_that_is_missing_is_a_failure_unless_it_may_be(setting: str, fails: bool) -> None:
    command = ["make", "--no-print-directory", "test-python3.999", setting]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("python3.999 is not on this machine")
    assert (done.returncode != 0) is fails, done.stderr
