"""Progress of long work: one event, `Progress`, every two seconds, for a bar on a terminal or JSON lines, and
for other sinks."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from answermill.pipelines.runs.watch import log_lines

T = TypeVar("T")
WINDOW_S = 120.0
"""Last seconds over which the rate is measured."""
LOOK_S = 2.0
"""Seconds between two looks at what is done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a step at a moment: units of work, and the items in them, which messages call `item`. None
    is unknown yet."""

    step: str
    units_done: int
    units: int | None
    items_done: int
    items: int | None
    item: str
    rate_per_s: float | None
    elapsed_s: float
    left_s: float | None

    def pace(self) -> str:
        """'26.1/s, 0:01:09 left', as far as it is known."""
        rate = [] if self.rate_per_s is None else [f"{self.rate_per_s:,.1f}/s"]
        left = [] if self.left_s is None else [f"{timedelta(seconds=round(self.left_s))} left"]
        return ", ".join(rate + left)

    def rounded(self) -> dict[str, Any]:
        """The values of a JSON line."""
        return asdict(self) | {
            "rate_per_s": self.rate_per_s and float(f"{self.rate_per_s:.3g}"),
            "elapsed_s": round(self.elapsed_s),
            "left_s": None if self.left_s is None else round(self.left_s),
        }


Sink = Callable[[Progress], object]
sinks: list[Sink] = []
"""Receivers of all progress in this process, besides stderr; called in another thread."""


class Done(NamedTuple):
    """Work that is done: items; those kept from a former run, which do not count for the rate of this one;
    whole units."""

    items: int
    kept: int = 0
    units: int = 0


@dataclass
class Watch:
    """Observer of work in progress. `done` counts how many of the `items` are done; without `units` each item
    is one."""

    step: str
    items: int | None
    done: Callable[[], int | Done]
    item: str = "units"
    units: int | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._changes: deque[tuple[float, int]] = deque()  # (time, items done by then), oldest first
        self._has_begin = True
        self.first = self.look()

    def look(self) -> Progress:
        """The progress now."""
        count, now = self.done(), self.clock()
        done = count if isinstance(count, Done) else Done(count, units=count)
        rate = self._rate(now, done.items - done.kept)
        left = (self.items - done.items) / rate if rate and self.items is not None else None

        units = self.items if self.units is None else self.units
        return Progress(
            self.step, done.units, units, done.items, self.items, self.item, rate, now - self._began, left
        )

    def _rate(self, now: float, done: int) -> float | None:
        """Items a second between the first change of the window and the last, or until now if nothing has
        changed for longer than that; None before the first item."""
        changes = self._changes
        if not changes or done > changes[-1][1]:
            changes.append((now, done))

        # The start is dropped once two changes have followed it, since models were loaded first.
        while len(changes) > 2 and (self._has_begin or changes[1][0] <= now - WINDOW_S):
            changes.popleft()
            self._has_begin = False

        if len(changes) < 2:
            return None

        (first, before), (last, after) = changes[0], changes[-1]
        end = now if now - last > last - first else last
        return (after - before) / (end - first) if end > first else None


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
    """Show on stderr how many of `items` are done while the block runs. `done` counts them; `what` is their
    name in messages. If their number is not known, None, only the rate is shown.

    `units`: number of units of work that hold the items, if each item is not a unit itself.
    """
    ended, watch = threading.Event(), Watch(label, items, done, what, units)

    def show() -> None:
        has_bar = _draws()
        every_s = LOOK_S / 2 if has_bar else min(interval_s, LOOK_S)
        with _bar(watch.first) if has_bar else nullcontext(_lines(interval_s)) as own_sink:
            while not ended.wait(every_s):
                try:
                    now = watch.look()
                except OSError:
                    # A store does not list a work folder now; the step itself reports it if it matters.
                    continue
                for sink in (own_sink, *sinks):
                    sink(now)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _draws() -> bool:
    """True if stderr is a terminal that can draw, and lines for collectors were not chosen."""
    return (
        sys.stderr.isatty()
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
        and not log_lines.is_json()
    )


@contextmanager
def _bar(first: Progress) -> Iterator[Sink]:
    """A bar on the terminal until the block ends."""
    from rich import progress as rich
    from rich.console import Console

    amount = "{task.completed:,.0f}" + ("" if first.items is None else f"/{first.items:,}") + f" {first.item}"
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn(amount),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[pace]}"),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(first.step, total=first.items, completed=first.items_done, pace="")
        yield lambda now: bar.update(task, completed=now.items_done, pace=now.pace())


def _lines(interval_s: float) -> Sink:
    """Sink that writes a line of JSON whenever another interval is over; for collectors it has more keys."""
    lines = 0

    def write(now: Progress) -> None:
        nonlocal lines
        if now.elapsed_s >= (lines + 1) * interval_s:
            lines += 1
            values = now.rounded()
            log_lines.write("progress", text=json.dumps(values), **values)

    return write


@contextmanager
def reading(
    label: str, rows: Iterable[T], total: int | None = None, what: str = "rows"
) -> Iterator[Iterator[T]]:
    """The rows, and progress on stderr while the block reads them; `total`: their number, where that is
    known."""
    rows_read = 0

    def counted() -> Iterator[T]:
        nonlocal rows_read
        for row in rows:
            yield row
            rows_read += 1

    with progress(label, total, lambda: rows_read, what=what):
        yield counted()


def print_line(line: str) -> None:
    """Write one line to stderr, whole even if several threads do, as text or as a JSON object."""
    log_lines.write(line)
