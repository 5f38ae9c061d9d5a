from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.steps.chain import run_steps, steps_of
from tests.engines.small_job import BLOCK


@pytest.fixture(scope="session")
def in_process(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small job in blocks of ten questions, run in this process."""
    run = tmp_path_factory.mktemp("in_process")
    for folder in ("documents", "passages", "rejects", "shards"):
        shutil.copytree(small_run / folder, run / folder)
    job = load(small_run.parent / "job.toml", [BLOCK])
    list(run_steps(job, run, steps_of(job), ()))
    return run


@pytest.fixture
def begun(in_process: Path, tmp_path: Path) -> Path:
    """A copy of the run before its retrieved passages are reranked."""
    run = tmp_path / "run"
    later = ("scored", "scored_rejects", "labels", "answers*", ".lock")
    shutil.copytree(in_process, run, ignore=shutil.ignore_patterns(*later))
    return run
