"""What a benchmark says of a command that it runs."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import peak_gb, run_command


def test_a_commands_peak_is_its_own_not_that_of_who_starts_it(capfd: pytest.CaptureFixture[str]) -> None:
    held = np.ones(65_000_000)
    assert peak_gb() > held.nbytes / 1e9
    assert 0.01 < run_command("columns") < 0.5
    assert "passages" in capfd.readouterr().err


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"answermill columns --nonsense ended with status 2"):
        run_command("columns", "--nonsense")
