"""A worker that runs another revision of the package than the command does no work."""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from answermill.pipelines.errors import UNAVAILABLE, JobError
from answermill.pipelines.revision import PACKAGE, code_version, revision
from testing.engines import other_revision, worker_pool
from tests.made_steps import NoUnits


class Holds(NoUnits):
    def __init__(self, step: str, work: Path, value: str) -> None:
        super().__init__(step, work)
        self.value = value


def test_a_function_comes_whole_to_a_worker_of_the_same_revision(tmp_path: Path) -> None:
    function = pickle.loads(pickle.dumps(Holds("rerank", tmp_path, "all")))
    assert isinstance(function, Holds) and function.value == "all"


def test_a_worker_of_another_revision_opens_nothing_and_says_both(tmp_path: Path) -> None:
    opened, (step, _, command, folder, _) = Holds("rerank", tmp_path, "all").__reduce__()
    with pytest.raises(JobError) as e:
        opened(step, "0.0.9-0123456789ab", command, folder, b"nothing that could be opened")
    assert e.value.code == UNAVAILABLE
    assert str(e.value).startswith(
        f"rerank: {platform.node()} runs revision {revision()} of answermill, the command 0.0.9-0"
    )


def test_the_same_files_are_the_same_revision_elsewhere_and_a_changed_one_is_another(tmp_path: Path) -> None:
    other_revision(tmp_path)
    ask = [sys.executable, "-c", "from answermill.pipelines.revision import revision; print(revision())"]

    def asked() -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            ask, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert asked() != revision() and asked().startswith(f"{code_version()}-")
    shutil.copy(PACKAGE / "schemas" / "__init__.py", tmp_path / "answermill" / "schemas" / "__init__.py")
    assert asked() == revision()


COMMAND = (
    f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); from answermill.__main__ import main; main()"
)
"""The command by this revision, whatever its workers import."""
WAYS: dict[str, Callable[[Path], AbstractContextManager[tuple[str, ...]]]] = {
    "two processes": lambda packages: nullcontext(()),
    "a pool": worker_pool,
}


@pytest.mark.parametrize("way", ["two processes", pytest.param("a pool", marks=pytest.mark.nightly)])
def test_workers_of_another_revision_end_the_step_with_one_line_and_nothing_is_committed(
    small_run: Path, tmp_path: Path, way: str
) -> None:
    packages, run = other_revision(tmp_path / "packages"), tmp_path / "run"
    later = ("questions*", "retrieved", "scored*", "labels", "answers.jsonl")
    shutil.copytree(small_run, run, ignore=shutil.ignore_patterns(*later, ".lock"))

    with WAYS[way](packages) as options:
        command = [
            sys.executable,
            "-c",
            COMMAND,
            "retrieve",
            str(small_run.parent / "job.toml"),
            "--out",
            str(run),
            "--set",
            "workers.processes=2",
            "retrieve.block=5",
            "--",
            *options,
        ]

        environment = {**os.environ, "PYTHONPATH": str(packages)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    assert done.returncode == UNAVAILABLE, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert (
        len(lines) == 1 and f"of answermill, the command {revision()}: install the same package" in lines[0]
    ), done.stderr
    assert not (run / "retrieved" / "_manifest.json").exists()
