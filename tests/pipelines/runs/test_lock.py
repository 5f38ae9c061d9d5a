"""No two processes write into one folder, and a kill leaves no lock behind."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.steps.chain import run_steps

JOB = Job.model_validate({"rerank": {"stages": [{"reranker": "overlap"}]}})
HOLD = """
import pathlib, sys
from answermill.pipelines.runs.lock import claimed
with claimed(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_that_a_process_writes_into_is_refused_until_that_process_is_gone(tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(JobError, match=r"deep/run: another process is writing here") as e:
            list(run_steps(JOB, run, [], ()))
        assert e.value.code == OUTPUT_EXISTS
        with claimed(tmp_path / "deep" / "another"):
            other.kill()
    assert list(run_steps(JOB, run, [], ())) == []
    assert list(run.iterdir()) == []


def test_a_folder_that_nothing_was_written_into_is_removed_where_it_was_made(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), claimed(tmp_path / "run"):
        raise RuntimeError("mine")
    assert not (tmp_path / "run").exists()
    with claimed(tmp_path / "run"):
        (tmp_path / "run" / "part").touch()
    assert (tmp_path / "run" / "part").exists()
    (tmp_path / "empty").mkdir()
    with claimed(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty").is_dir()


def test_never_two_are_inside_though_each_removes_the_empty_folder_behind_it(tmp_path: Path) -> None:
    inside: list[int] = []
    entries: list[int] = []

    def enter_often(name: int) -> None:
        for _ in range(60):
            try:
                with claimed(tmp_path / "run"):
                    inside.append(name)
                    entries.append(len(inside))
                    inside.remove(name)
            except JobError as e:
                assert "another process is writing here" in str(e)

    threads = [threading.Thread(target=enter_often, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entries) > 4 and set(entries) == {1}
    assert list(tmp_path.rglob("*")) in ([], [tmp_path / "run"])


def test_it_is_free_again_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), claimed(tmp_path):
        raise RuntimeError("mine")
    with claimed(tmp_path):
        pass


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch, capsys, error: int) -> None:
    def refuse(held: int, how: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with claimed(tmp_path):
        pass
    why = os.strerror(error)
    assert (
        capsys.readouterr().err
        == f"{tmp_path} cannot be locked ({why}): make sure that no other process writes there\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(JobError, match=r"run is a file; give a folder") as e, claimed(tmp_path / "run"):
        pass
    assert e.value.code == OUTPUT_EXISTS
