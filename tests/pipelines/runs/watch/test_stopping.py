"""A signal lets the units at work end, and be reported; none begins after it, and a second one waits for
nothing."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from answermill.pipelines.cli.ending import STOPPED, Command, run_to_the_end
from answermill.pipelines.engine.protocol import Units
from answermill.pipelines.engine.runner import carry, open_engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import Stopped
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch import stopping
from answermill.schemas.corpus import Question
from tests.made_steps import made_step, report, reports_of

ROOT = Path(__file__).parents[4]
UNITS = 8


class Signals(UnitWork):
    """In the middle of their work the first unit sends the command a signal, and all wait until their process
    knows of it."""

    def __init__(self, work: Path, number: int) -> None:
        super().__init__("retrieve", work)
        self._number, self._command = number, os.getpid()

    def work(self, unit: int, *rest: Any) -> list[tuple[int, int]]:
        if self._number:
            with suppress(FileExistsError):
                (self._work_folder / "sent").touch(exist_ok=False)
                os.kill(self._command, self._number)
            began = time.monotonic()
            while not stopping.is_stopping() and time.monotonic() - began < 60:
                time.sleep(0.01)
        reports_of(self._work_folder).write(report(unit))
        return []


def ended(work: Callable[[], object]) -> int:
    def working(command: Command) -> int:
        work()
        return 0

    with pytest.raises(SystemExit) as e:
        run_to_the_end(working, is_process=False)
    return int(e.value.code or 0)


@pytest.fixture
def step(tmp_path: Path) -> Step:
    step = made_step(tmp_path, "retrieve", {"questions": Question}, {}, {})
    Commit(step).begin()
    return step


@pytest.mark.parametrize(
    ("number", "code", "processes", "options"),
    [
        (signal.SIGINT, 130, 1, ()),
        (signal.SIGTERM, 143, 2, ()),
        (signal.SIGTERM, 143, 1, ("--runner=DirectRunner",)),
    ],
)
def test_the_unit_at_work_ends_and_none_begins(
    step: Step, number: int, code: int, processes: int, options: Sequence[str], capfd
) -> None:
    assert ended(lambda: carry(step, UNITS, Signals(step.work, number), options, processes)) == code
    assert (
        "".join(line for line in capfd.readouterr().err.splitlines(True) if not line.startswith("{"))
        == STOPPED
    )
    assert 1 <= step.reports.count() <= processes
    carry(step, UNITS, Signals(step.work, 0), (), 1)  # 0 is no signal
    assert step.reports.numbers() == set(range(UNITS))


class Emits(Signals):
    skips_reported = False

    def work(self, unit: int, *rest: Any) -> list[tuple[int, int]]:
        super().work(unit)
        return [(unit, unit)]


class BeginsLate(Emits):
    """Of two processes one begins its unit when the signal has come, and the other then takes a while to end
    its own."""

    def load(self) -> None:
        try:
            (self._work_folder / "first").touch(exist_ok=False)
        except FileExistsError:
            began = time.monotonic()
            while not stopping.is_stopping() and time.monotonic() - began < 60:
                time.sleep(0.01)

    def work(self, unit: int, *rest: Any) -> list[tuple[int, int]]:
        emitted = super().work(unit)
        time.sleep(0.5)
        (self._work_folder / "ended").touch()
        return emitted


def test_a_unit_at_work_ends_though_another_process_began_too_late(step: Step) -> None:
    def work() -> None:
        with open_engine((), 2, UNITS, step.work) as engine:
            engine.each("Emit", Units.first(UNITS), BeginsLate(step.work, signal.SIGTERM))

    assert ended(work) == 143
    assert (step.work / "ended").is_file() and step.reports.count() == 1


class After(UnitWork):
    def work(self, unit: int, *rest: Any) -> None:
        reports_of(self._work_folder).write(report(100 + unit))


@pytest.mark.parametrize(("options", "processes"), [((), 1), ((), 2), (("--runner=DirectRunner",), 1)])
def test_what_reads_what_units_emit_does_not_begin_without_all_of_them(
    step: Step, options: Sequence[str], processes: int
) -> None:
    def work() -> None:
        with open_engine(options, processes, UNITS, step.work) as engine:
            emitted = engine.each("Emit", Units.first(UNITS), Emits(step.work, signal.SIGTERM))
            engine.group("After", [emitted], After("retrieve", step.work))

    assert ended(work) == 143
    assert 1 <= step.reports.count() <= processes and max(step.reports.numbers()) < UNITS


def test_a_second_signal_waits_for_no_unit() -> None:
    code = """
import os, signal, sys, time
from answermill.pipelines.cli.ending import run_to_the_end
from answermill.pipelines.runs.watch import stopping
def work(command):
    with stopping.at_work():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.is_stopping()
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
run_to_the_end(work, True)
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (143, STOPPED)


def test_where_no_unit_is_at_work_nothing_is_waited_for() -> None:
    assert not stopping.request_stop() and not stopping.is_stopping()
    with stopping.at_work():
        assert not stopping.is_stopping() and stopping.descriptor() is not None
    assert stopping.descriptor() is None


def test_a_signal_in_the_moment_when_the_last_unit_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = stopping.is_stopping

    def looks_too_early() -> bool:
        answer = looked()
        os.kill(os.getpid(), signal.SIGTERM)
        return answer

    def work() -> None:
        with stopping.at_work():
            monkeypatch.setattr(stopping, "is_stopping", looks_too_early)

    assert ended(work) == 143
    assert stopping.descriptor() is None


def test_what_stopped_the_command_reads_the_same_when_beam_makes_it_anew() -> None:
    for error in (Stopped("signal 15"), Stopped("between two units")):
        assert str(pickle.loads(pickle.dumps(error))) == str(type(error)(*error.args)) == error.args[0]
    assert not str(Stopped("between two units")).startswith("signal")
