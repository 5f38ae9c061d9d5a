"""The small job as a command, for the tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from testing.engines import ROOT, digests

BLOCK = "retrieve.block=5"
"""Three blocks of questions, so that every step but the last has units for two slots."""


def command(small_run: Path, run: Path | str, options: Sequence[str], step: str = "run") -> list[str]:
    """The command line of a step of the small job, with Beam's options."""
    return [
        sys.executable,
        "-m",
        "answermill",
        *words(small_run.parent / "job.toml", run, step),
        "--",
        *options,
    ]


def words(job: Path | str, run: Path | str, step: str = "run") -> list[str]:
    """What comes after `answermill`, before Beam's options."""
    return [step, str(job), "--out", str(run), "--set", BLOCK]


def call(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)


def up_to_answers(run: Path) -> dict[str, str]:
    """The digests of all that a run holds before `propagate`."""
    return {name: digest for name, digest in digests(run).items() if not name.startswith("labels")}
