"""Progress of long work on stderr: a bar on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str, total: int, done: Callable[[], int], interval_s: float = 30.0) -> Iterator[None]:
    """Show on stderr how many of `total` units are done while the block runs. `done` counts them."""
    ended = threading.Event()
    began, first = time.monotonic(), done()

    def write_lines() -> None:
        while not ended.wait(interval_s):
            now, elapsed = done(), time.monotonic() - began
            remaining = elapsed / (now - first) * (total - now) if now > first else None
            state = {"step": label, "units_done": now, "units": total, "elapsed_s": round(elapsed)}
            print_line(json.dumps({**state, "left_s": None if remaining is None else round(remaining)}))

    def draw_bar() -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total, completed=first)
            while not ended.wait(0.2):
                bar.update(task, completed=done())

    thread = threading.Thread(target=draw_bar if sys.stderr.isatty() else write_lines, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def print_line(line: str) -> None:
    """Write one line to stderr, whole even if several threads do."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
