"""Progress of long work on stderr: a bar on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from answermill.pipelines.runs.watch import log_lines

T = TypeVar("T")
WINDOW_S = 120.0
"""The rate is that of these last seconds."""
LOOK_S = 2.0
"""Seconds between two looks at what is done."""


@dataclass(frozen=True, slots=True)
class Done:
    """What is done: items; how many of them are a former run's, which say nothing of how fast this one goes; whole units."""

    items: int
    kept: int = 0
    units: int | None = None


class Rate:
    """How fast work goes on lately, from what was done at which time, in seconds."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, int]] = deque()  # (time, items done by then), oldest first
        self._begin: float | None = None

    def add(self, now: float, done: int) -> None:
        """`done` items are done at the time `now`. Forgets the changes before the window, but for the last of them; and, when
        there are two changes after it, the begin, whose time went into loading models."""
        if not self._changes or done > self._changes[-1][1]:
            self._changes.append((now, done))
            self._begin = self._begin if self._begin is not None else now
        while len(self._changes) > 2 and (self._changes[1][0] <= now - WINDOW_S or self._changes[0][0] == self._begin):
            self._changes.popleft()

    def per_second(self, now: float) -> float | None:
        """Items a second between the first change and the last, or until now if nothing has changed for longer than that; None
        before the first item."""
        if len(self._changes) < 2:
            return None
        (first, before), (last, done) = self._changes[0], self._changes[-1]
        end = now if now - last > last - first else last
        return (done - before) / (end - first) if end > first else None


@dataclass(frozen=True, slots=True)
class View:
    """How far the work is at a moment: items a second and the seconds left are None where nothing is known yet."""

    done: Done
    rate_per_s: float | None
    elapsed_s: float
    left_s: float | None


class Watch:
    """Looks at work as it goes on: `items` in all, if that is known, of which `done` counts those that are done."""

    def __init__(self, items: int | None, done: Callable[[], int | Done], clock: Callable[[], float] = time.monotonic) -> None:
        self._items, self._done, self._clock = items, done, clock
        self._rate, self._began = Rate(), clock()
        self.look()

    def look(self) -> View:
        """How far it is now."""
        counted, now = self._done(), self._clock()
        done = counted if isinstance(counted, Done) else Done(counted)
        self._rate.add(now, done.items - done.kept)
        rate = self._rate.per_second(now)
        left = (self._items - done.items) / rate if rate and self._items is not None else None
        return View(done, rate, now - self._began, left)


@dataclass(frozen=True, slots=True)
class State:
    """How far some work is: of what step, of how many `items`, which people call `what`, in how many units."""

    step: str
    what: str
    items: int | None
    units: int | None
    view: View

    def to_json(self) -> dict[str, object]:
        """What a line says of it."""
        view = self.view
        return {
            "step": self.step,
            "units_done": view.done.items if view.done.units is None else view.done.units,
            "units": self.items if self.units is None else self.units,
            "items_done": view.done.items,
            "items": self.items,
            "item": self.what,
            "rate_per_s": view.rate_per_s and float(f"{view.rate_per_s:.3g}"),
            "elapsed_s": round(view.elapsed_s),
            "left_s": None if view.left_s is None else round(view.left_s),
        }


watchers: list[Callable[[State], object]] = []
"""Who else hears of all progress in this process, every two seconds; called in another thread."""


@contextmanager
def progress(
    label: str,
    items: int | None,
    done: Callable[[], int | Done],
    *,
    what: str = "units",
    units: int | None = None,
    interval_s: float = 30.0,
) -> Iterator[None]:
    """Show on stderr how many of `items` are done while the block runs. `done` counts them; `what` is what people call them.
    Where it is not known how many there are, None, only the rate is shown.

    `units`: in how many units of work the items come, if each is not a unit itself.
    """
    ended, watch = threading.Event(), Watch(items, done)

    def look() -> State:
        state = State(label, what, items, units, watch.look())
        for watcher in list(watchers):
            watcher(state)
        return state

    def write_lines() -> None:
        lines = 0
        while not ended.wait(min(interval_s, LOOK_S)):
            state = look()
            if state.view.elapsed_s >= (lines + 1) * interval_s:
                lines += 1
                print_progress(state.to_json())

    def draw_bar() -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}" + (f"/{items:,} {what}" if items is not None else f" {what}")),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=items, completed=look().view.done.items, left="")
            while not ended.wait(LOOK_S / 2):
                view = look().view
                left = "" if view.left_s is None else f"{view.rate_per_s:,.1f}/s, {timedelta(seconds=round(view.left_s))} left"
                bar.update(task, completed=view.done.items, left=left)

    thread = threading.Thread(target=draw_bar if _draws() else write_lines, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _draws() -> bool:
    """Whether stderr is a terminal that can draw, whose reader has not asked for lines."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown") and not log_lines.is_json()


@contextmanager
def reading(label: str, rows: Iterable[T], total: int | None = None, what: str = "rows") -> Iterator[Iterator[T]]:
    """The rows, and progress on stderr while the block takes them; `total`: how many there are, where that is known."""
    taken = 0

    def counted() -> Iterator[T]:
        nonlocal taken
        for row in rows:
            yield row
            taken += 1

    with progress(label, total, lambda: taken, what=what):
        yield counted()


def print_line(line: str) -> None:
    """Write one line to stderr, whole even if several threads do: as it is, or as logs are written."""
    log_lines.write(log_lines.of("info", line))


def print_progress(values: dict[str, object]) -> None:
    """Write a line of JSON, which as a log has more in it."""
    log_lines.write(log_lines.of("info", "progress", **values) if log_lines.is_json() else json.dumps(values))
