"""What is said of long work: how much is done, how fast it goes on lately, and how long it will take."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.runs.watch import progress as progress_module
from answermill.pipelines.runs.watch.meter import Meter, Meters, add_up
from answermill.pipelines.runs.watch.progress import Done, Progress, Watch, progress, reading
from tests.made_steps import report, reports_of


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def watched(
    items: int, done: Callable[[float], int | Done], seconds: int
) -> Iterator[tuple[float, float | None, float | None]]:
    """(seconds since the begin, rate, seconds left) at each of `seconds`; `done` says what is done after n
    seconds."""
    clock = Clock()
    watch = Watch("rerank", items, lambda: done(clock.now - 1_000), clock=clock)
    for second in range(1, seconds + 1):
        clock.now = 1_000.0 + second
        now = watch.look()
        assert now.elapsed_s == second
        yield second, now.rate_per_s, now.left_s


def test_nothing_is_said_of_the_rate_before_the_first_item() -> None:
    assert list(watched(100, lambda second: int(second >= 3), 3))[1:] == [(2, None, None), (3, 1 / 3, 297)]


def test_a_shard_of_blocks_is_estimated_within_a_tenth() -> None:
    """20,000 passages, 22 a second, known block by block after 15 seconds of loading."""
    whole = 15 + 20_000 / 22

    def done(second: float) -> int:
        return int(max(0.0, second - 15) * 22 // 256) * 256

    for second, _, left in watched(20_000, done, int(whole)):
        if second >= whole / 10:
            assert left is not None and abs(left - (whole - second)) < whole / 10


def test_the_rate_is_that_of_the_last_two_minutes() -> None:
    """Passages of the first ten minutes take a tenth of the time of those that follow."""
    states = {
        s: rate for s, rate, _ in watched(10**6, lambda s: int(100 * min(s, 600) + 10 * max(0, s - 600)), 800)
    }
    assert states[600] == pytest.approx(100)
    assert states[730] == pytest.approx(10)


def test_work_that_stands_still_is_said_to_take_longer_and_longer() -> None:
    states = {s: left for s, _, left in watched(1_000, lambda s: int(min(s, 50)), 500)}
    assert states[50] == 950
    assert (states[200] or 0) > 3 * 950
    assert (states[500] or 0) > 2 * (states[200] or 0)


def test_what_was_kept_says_nothing_of_the_rate() -> None:
    def done(second: float) -> Done:
        return Done(500 + int(second), kept=500) if second >= 1 else Done(0)

    assert list(watched(1_000, done, 60))[-1] == (60, 1, 440)


def test_meters_add_up_units_that_are_done_and_parts_of_others(tmp_path: Path) -> None:
    (tmp_path / "progress-00000-killed.json").write_text("[99, 0]")
    meters, clock = Meters(tmp_path, [100, 50, 200]), Clock()
    assert meters.done() == Done(0, 0, 0)

    with (
        Meter(tmp_path, 1, clock) as first,
        Meter(tmp_path, 2, clock) as slow,
        Meter(tmp_path, 2, clock) as ahead,
    ):
        first.add(50)
        slow.add(10)
        ahead.add(30, kept=20)
        assert meters.done() == Done(80, 20, 0)
        ahead.add(30)
        assert meters.done().items == 80  # it is not two seconds since
        clock.now += 2
        ahead.add(30)
        assert meters.done() == Done(140, 20, 0)
        reports_of(tmp_path).write(report(1))

    assert meters.done() == Done(50, 20, 1)
    reports_of(tmp_path).write(report(2))
    assert meters.done() == Done(250, 20, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"unit-00001.json", "unit-00002.json"}


def test_passes_over_the_same_units_are_added_up(tmp_path: Path) -> None:
    passes = [Meters(tmp_path / name, [100, 50]) for name in ("parse", "cut")]
    for unit in (0, 1):
        reports_of(tmp_path / "parse").write(report(unit))
    with Meter(tmp_path / "cut", 1) as meter:
        meter.reach(20)
        assert add_up(passes) == Done(170, 0, 2)


def test_a_meter_that_cannot_write_and_a_file_cut_short_harm_nobody(tmp_path: Path) -> None:
    with Meter(tmp_path / "gone", 0) as meter:
        meter.add(1)
    meters = Meters(tmp_path, [10])
    (tmp_path / "progress-00000-a.json").write_text("[3")
    (tmp_path / "progress-00000-b.json").write_text("[2, 0]")
    assert meters.done() == Done(2, 0, 0)


def test_lines_say_what_is_done_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    looked_twice = threading.Event()
    states = iter([Done(0, 0, 0), Done(300, 0, 3)])

    def done() -> Done:
        if (state := next(states, None)) is None:
            looked_twice.set()
        return state or Done(400, 0, 4)

    with progress("index", 900, done, units=9, what="passages", interval_s=0.01):
        assert looked_twice.wait(60)
    line = json.loads(capsys.readouterr().err.splitlines()[0])
    assert (line["step"], line["units_done"], line["units"]) == ("index", 3, 9)
    assert (line["items_done"], line["items"], line["item"]) == (300, 900, "passages")
    assert line["rate_per_s"] > 0 and line["left_s"] >= 0 and line["elapsed_s"] == 0


@contextmanager
def terminal(kind: str = "xterm") -> Iterator[Callable[[], str]]:
    """In the block stderr is a terminal of 120 columns; the function returns what it has shown so far,
    escapes and all."""
    ours, its = pty.openpty()
    os.set_blocking(ours, False)
    shown = bytearray()

    def read() -> str:
        with suppress(BlockingIOError):
            while more := os.read(ours, 65_536):
                shown.extend(more)
        return shown.decode()

    with os.fdopen(its, "w") as stderr, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        patch.setenv("TERM", kind)
        patch.setattr(progress_module, "LOOK_S", 0.2)
        patch.setattr(sys, "stderr", stderr)
        yield read

    os.close(ours)


def goes_on(until: Callable[[], bool]) -> Iterator[int]:
    """1, 2, …, a number every tenth of a second until that is so, for a minute at most."""
    for number in range(1, 601):
        if until():
            return
        yield number
        time.sleep(0.1)


def test_a_terminal_gets_a_bar_with_the_rate_and_the_time_that_is_left() -> None:
    done = [300]
    with terminal() as shown, progress("index", 9_000, lambda: done[-1], what="passages", interval_s=0.01):
        done += (300 + number for number in goes_on(until=lambda: " left" in shown()))
        text = shown()
    assert (
        re.search(r"index .*━.* 3\d\d/9,000 passages .*\d/s, \d+:\d\d:\d\d left", text)
        and '"step"' not in text
    )


@pytest.mark.parametrize("why", ["json", "dumb"])
def test_a_terminal_that_is_to_have_lines_or_cannot_draw_gets_no_bar(why: str) -> None:
    log_lines.choose("json" if why == "json" else "text")
    try:
        kind = "dumb" if why == "dumb" else "xterm"
        with terminal(kind) as shown, progress("index", 9_000, lambda: 300, what="passages", interval_s=0.01):
            list(goes_on(until=lambda: "}\r\n" in shown()))
            text = shown()
    finally:
        log_lines.choose("text")
    assert json.loads(text.splitlines()[0])["items_done"] == 300 and "━" not in text and "\x1b" not in text


def test_a_pipe_gets_a_line_every_half_minute_and_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    code = """
import functools, time
from answermill.pipelines.runs.watch import progress
from tests.made_steps import made_step, report, reports_of
clock = [1_000.0]
progress.LOOK_S = 0.01
progress.Watch = functools.partial(progress.Watch, clock=lambda: clock[0])  # five seconds go by from look to look
with progress.progress("index", 900, lambda: clock.__setitem__(0, clock[0] + 5) or 300, what="passages"):
    while clock[0] < 1_100:
        time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["elapsed_s"] for line in lines][:3] == [30, 60, 90] and lines[0]["item"] == "passages"


def test_of_rows_without_a_known_number_the_rate_is_shown_and_no_time_that_is_left() -> None:
    clock = Clock()
    watch = Watch("read", None, lambda: int(clock.now - 1_000), clock=clock)
    for _ in range(3):
        clock.now += 1
        now = watch.look()
    assert now.left_s is None and now.pace() == "1.0/s"
    with reading("rows", iter("abc")) as rows:
        assert list(rows) == ["a", "b", "c"]


def test_a_look_that_the_store_refuses_is_left_out_and_the_next_one_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([Done(0), OSError("the store did not do it"), Done(300, units=3)])
    shown: list[int] = []
    seen = threading.Event()

    def done() -> Done:
        answer = next(answers, Done(300, units=3))
        if isinstance(answer, OSError):
            raise answer
        return answer

    def sink(now: Progress) -> None:
        shown.append(now.items_done)
        seen.set()

    monkeypatch.setattr(progress_module, "sinks", [sink])
    with progress("index", 900, done, interval_s=0.01):
        assert seen.wait(60)
    assert shown[0] == 300
