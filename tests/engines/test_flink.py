"""The small job on a real Flink: the same bytes as in this process, whatever starts the workers and whatever
dies.

The first test runs with all others where Flink can be started. The rest take minutes: `make test-flink`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from answermill.pipelines.errors import UNAVAILABLE
from answermill.pipelines.revision import revision
from answermill.pipelines.runs.step import work_folders
from testing.engines import ROOT, EngineMissing, Flink, digests, flink, other_revision
from testing.machines import children
from tests.engines.small_job import call, command, up_to_answers
from tests.made_steps import reports_of

LATER = ("questions", "questions_rejects", "retrieved", "scored", "scored_rejects", "answers*")


@contextmanager
def started(task_managers: int, slots: int, restarts: int = 0, packages: Path = ROOT) -> Iterator[Flink]:
    try:
        with flink(task_managers, slots, restarts, packages) as engine:
            yield engine
    except EngineMissing as e:
        pytest.skip(str(e))


@pytest.mark.engines
def test_two_slots_of_a_worker_give_the_same_bytes(small_run: Path, in_process: Path, tmp_path: Path) -> None:
    """From the passages on: two shards, then three blocks, in one worker process."""
    shutil.copytree(in_process, tmp_path / "run", ignore=shutil.ignore_patterns("shards", *LATER, "labels"))
    with started(1, 2) as engine:
        done = call(command(small_run, tmp_path / "run", engine.options("pool")))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(in_process)


@pytest.mark.engines
@pytest.mark.parametrize(
    ("task_managers", "slots", "form"),
    [(1, 4, "pool"), (1, 4, "process"), (2, 2, "process"), (1, 4, "loopback")],
)  # a pool, or loopback, serves one task manager only: the names of workers repeat
def test_slots_and_task_managers_give_the_same_bytes(
    small_run: Path, in_process: Path, tmp_path: Path, task_managers: int, slots: int, form: str
) -> None:
    with started(task_managers, slots) as engine:
        done = call(command(small_run, tmp_path / "run", engine.options(form)))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(in_process)


def children_of(engine: Flink, name: str) -> Callable[[], int | None]:
    """Names the first child of the engine's process of that name."""
    return lambda: next(iter(children(engine.process(name))), None)


def killed_in_the_middle(
    arguments: Sequence[str], run: Path, victim: Callable[[], int | None]
) -> tuple[int, str]:
    """Run, and kill -9 the process that `victim` names once the first unit has reported; exit code and
    stderr."""

    def done() -> int:
        return sum(reports_of(work).count() for work in work_folders(run, "rerank"))

    before = done()
    child = subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while child.poll() is None and done() == before:
        time.sleep(0.005)
    chosen = victim()
    assert child.poll() is None and chosen is not None and done() < 3, "the units were done too soon"
    os.kill(chosen, signal.SIGKILL)

    _, err = child.communicate()
    return child.returncode, err


@pytest.mark.engines
def test_a_killed_worker_ends_the_step_with_nothing_committed_or_is_started_again(
    small_run: Path, in_process: Path, begun: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    shutil.copytree(begun, again)

    with started(1, 1) as engine:
        victim = children_of(engine, "pool")
        code, err = killed_in_the_middle(
            command(small_run, begun, engine.options("pool"), "rerank"), begun, victim
        )
        assert code == 74, err
        assert err.count("answermill:") == 1 and "Traceback" not in err and "\tat " not in err, err
        assert not (begun / "scored" / "_manifest.json").exists()
        done = call(command(small_run, begun, engine.options("pool"), "rerank"))
        assert done.returncode == 0, done.stderr

    with started(1, 1, restarts=3) as engine:
        victim = children_of(engine, "pool")
        code, err = killed_in_the_middle(
            command(small_run, again, engine.options("pool"), "rerank"), again, victim
        )
        assert code == 0, err

    for run in (begun, again):
        assert digests(run) == up_to_answers(in_process)


@pytest.mark.engines
def test_a_killed_task_manager_costs_no_row(small_run: Path, in_process: Path, begun: Path) -> None:
    with started(2, 1, restarts=3) as engine:
        managers = [engine.process(f"taskmanager-{number}") for number in (1, 2)]

        def busy() -> int | None:
            return next((manager for manager in managers if children(manager)), None)

        arguments = command(small_run, begun, engine.options("process", parallelism=1), "rerank")
        code, err = killed_in_the_middle(arguments, begun, busy)
        assert code == 0, err
    assert digests(begun) == up_to_answers(in_process)


@pytest.mark.engines
def test_a_failed_job_shows_one_line_and_its_code(small_run: Path, begun: Path) -> None:
    part = next((begun / "retrieved").glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    with started(1, 2) as engine:
        for form in ("pool", "process", "loopback"):
            done = call(command(small_run, begun, engine.options(form), "rerank"))
            assert done.returncode == 65
            # Progress on a busy machine.
            lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
            assert len(lines) == 1, done.stderr
            assert lines[0].startswith("answermill:") and "was changed since it was written" in lines[0]
            assert not (begun / "scored" / "_manifest.json").exists()


@pytest.mark.engines
def test_workers_of_another_revision_are_refused(small_run: Path, begun: Path, tmp_path: Path) -> None:
    with started(1, 2, packages=other_revision(tmp_path / "packages")) as engine:
        for form in ("pool", "process"):
            done = call(command(small_run, begun, engine.options(form), "rerank"))
            assert done.returncode == UNAVAILABLE, done.stderr
            lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
            assert len(lines) == 1 and f"of answermill, the command {revision()}: install" in lines[0], (
                done.stderr
            )
            assert not (begun / "scored" / "_manifest.json").exists()


@pytest.mark.engines
def test_a_stopped_command_asks_to_cancel_its_job_and_the_next_takes_over(
    small_run: Path, in_process: Path, begun: Path
) -> None:
    """Beam's job server only stops waiting: Flink's job goes on, and the next command has its units, or does
    them itself."""
    arguments = command(small_run, begun, (), "rerank")
    with started(1, 1) as engine:
        arguments += engine.options("pool")
        child = subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        while child.poll() is None and not children(engine.process("pool")):
            time.sleep(0.05)
        child.terminate()
        _, err = child.communicate()
        assert child.returncode == 143 and err.endswith(
            "answermill: stopped; the same command goes on where it was\n"
        ), err

        assert "Canceling job invocation" in engine.log("jobserver")
        done = call(arguments)
        assert done.returncode == 0, done.stderr
        assert engine.overview()["jobs-cancelled"] == 0

    assert digests(begun) == up_to_answers(in_process)
