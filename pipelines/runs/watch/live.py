"""Who works on a run, since when and how far: a small file in the run folder, which another terminal reads.

The command that works writes it every few seconds, to a store every half minute, and removes it at its end; it begins to when
a step has progress to show, so that a run that is complete is not touched. It is for people only: what cannot be written is
left out. After a kill it stays; then its process is gone, or has not been seen for a while.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.remote import Remote
from answermill.files.store import is_alive
from answermill.pipelines.runs.watch.progress import State, watchers

RUNNING = ".running.json"
EVERY_S, EVERY_S_IN_STORE = 3.0, 30.0
SILENT_S = 60.0
"""A process that was not seen for longer, or for four times its interval, may be gone."""


@dataclass(frozen=True, slots=True)
class Running:
    """A command at work. Times are seconds since 1970, by its own clock."""

    host: str
    user: str
    pid: int
    began: float
    seen: float
    every_s: float
    step: str = ""
    items_done: int = 0
    items: int | None = None
    item: str = ""
    rate_per_s: float | None = None
    left_s: float | None = None

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """The command that works, or worked, on the run; None if none has said so."""
        try:
            return read_json(run / RUNNING, cls)
        except (FileNotFoundError, WrongShape):
            return None

    def is_gone(self, now: float) -> bool:
        """Whether its process has ended, or is on another machine and has not been seen for long."""
        if self.host == platform.node() and not is_alive(self.pid):
            return True
        return now - self.seen > max(SILENT_S, 4 * self.every_s)

    def who(self) -> str:
        began = datetime.fromtimestamp(self.began).astimezone()
        return f"pid {self.pid} of {self.user} on {self.host}, since {began:%Y-%m-%d %H:%M:%S %Z}"

    def how_far(self) -> str:
        """'rerank, 1,172 of 2,969 passages, 26.1/s, 0:01:09 left'."""
        clauses = [self.step or "looking at the job"]
        if self.item:
            clauses.append(f"{self.items_done:,}" + (f" of {self.items:,}" if self.items is not None else "") + f" {self.item}")
        if self.rate_per_s is not None:
            clauses.append(f"{self.rate_per_s:,.1f}/s")
        if self.left_s is not None:
            clauses.append(f"{timedelta(seconds=round(self.left_s))} left")
        return ", ".join(clauses)


class Live:
    """Says that this process works on the run, from the begin of the block to its end. Use with the run's lock held."""

    def __init__(self, run: Path) -> None:
        self._run, self._ended, self._has_news = run, threading.Event(), threading.Event()
        self._is_there = False
        every_s = EVERY_S_IN_STORE if isinstance(run, Remote) else EVERY_S
        self._state, self._changing = Running(platform.node(), _user(), os.getpid(), time.time(), time.time(), every_s), Lock()

    def begin(self, step: str) -> None:
        """The command is at this step now."""
        self._change(step=step, items_done=0, items=None, item="", rate_per_s=None, left_s=None)

    def hear(self, state: State) -> None:
        """The step is so far."""
        view = state.view
        self._change(
            items_done=view.done.items,
            items=state.items,
            item=state.what,
            rate_per_s=view.rate_per_s,
            left_s=view.left_s,
        )
        self._has_news.set()

    def _change(self, **values: Any) -> None:
        """What the step's thread says and what the command says stand both."""
        with self._changing:
            self._state = replace(self._state, **values)

    def __enter__(self) -> Self:
        self._is_there = (self._run / RUNNING).is_file()  # of a command that was killed
        watchers.append(self.hear)
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        watchers.remove(self.hear)
        self._ended.set()
        self._has_news.set()
        self._thread.join(5)  # a store may not answer
        if self._is_there and (kind is None or not isinstance(self._run, Remote)):
            with suppress(OSError):
                (self._run / RUNNING).unlink(missing_ok=True)

    def _go_on(self) -> None:
        self._has_news.wait(self._state.every_s)
        while not self._ended.is_set():
            self._write()
            self._ended.wait(self._state.every_s)

    def _write(self) -> None:
        self._is_there = True
        text = json.dumps(asdict(self._state) | {"seen": time.time()}, indent=1) + "\n"
        with suppress(OSError):
            if isinstance(self._run, Remote):
                write_text(self._run / RUNNING, text)
                return
            temporary = self._run / f"{RUNNING}.tmp"  # not brought to the disk: a power loss ends the command as well
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._run / RUNNING)


def _user() -> str:
    """The user's name; a number where the machine has no name for it, as in a container."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def line_of(run: Path, is_complete: bool) -> str:
    """What is going on in a run, in one line for people."""
    running = Running.read(run)
    if running is None:
        return "complete: all that was begun" if is_complete else "stopped: the same command goes on where it was"
    if running.is_gone(time.time()):
        seen = datetime.fromtimestamp(running.seen).astimezone()
        when = f"last seen {seen:%Y-%m-%d %H:%M:%S %Z} at {running.step or 'its begin'}"
        return f"stale: {running.who()}, is gone, {when}; the same command goes on where it was"
    return f"running: {running.how_far()}; {running.who()}"
