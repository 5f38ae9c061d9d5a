"""A small file in the run folder that names the command at work there, its start and its progress, for
another terminal to read.

The command at work writes it every few seconds, to a store every half minute, and removes it at its end. It
writes only once a step has begun or has progress to show, so that a run that is complete is not touched,
however long it is looked at. The file is for people only: if it cannot be written, it is left out. After a
kill it stays; then its process is gone, or has not been seen for a while.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.store import is_alive, store_of
from answermill.pipelines.runs.watch.progress import Progress, sinks

RUNNING = ".running.json"
WORK = "_work"
"""Folder of a run that holds the work folder of each step that has begun and is not complete."""
EVERY_S, EVERY_S_IN_STORE = 3.0, 30.0
SILENT_S = 60.0
"""Seconds after which a process that was not seen may be gone, or four times its interval if that is more."""


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
    progress: Progress | None = None

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """The command that works, or worked, on the run; None if there is no such file."""
        try:
            return read_json(run / RUNNING, cls)
        except (FileNotFoundError, WrongShape):
            return None

    def is_gone(self, now: float) -> bool:
        """True if its process has ended, or is on another machine and has not been seen for long."""
        if self.host == platform.node() and not is_alive(self.pid):
            return True
        return now - self.seen > max(SILENT_S, 4 * self.every_s)

    def who(self) -> str:
        """'pid 17 of anna on node3, since 2026-01-31 09:00:00 UTC'."""
        return f"pid {self.pid} of {self.user} on {self.host}, since {_local(self.began)}"

    def position(self) -> str:
        """'rerank, 1,172 of 2,969 passages, 26.1/s, 0:01:09 left'."""
        clauses = [self.step or "looking at the job"]
        if (now := self.progress) is not None:
            items = "" if now.items is None else f" of {now.items:,}"
            clauses += [f"{now.items_done:,}{items} {now.item}", now.pace()]
        return ", ".join(filter(None, clauses))


class Live:
    """Sign that this process works on the run, from start to end of the block. Use with the run's lock
    held."""

    def __init__(self, run: Path) -> None:
        self._file, self._work, self._is_there = run / RUNNING, run / WORK, False
        self._ended, self._has_news = threading.Event(), threading.Event()

        every_s = EVERY_S if store_of(run).is_quick else EVERY_S_IN_STORE
        self._running = Running(platform.node(), user(), os.getpid(), time.time(), time.time(), every_s)
        self._step = ""
        self._progress: Progress | None = None

    def begin(self, step: str) -> None:
        """Record the step that the command does now."""
        self._step, self._progress = step, None

    def update(self, progress: Progress) -> None:
        """Record the step's progress."""
        self._progress = progress
        self._has_news.set()

    def __enter__(self) -> Self:
        self._is_there = self._file.is_file()  # of a command that was killed
        sinks.append(self.update)
        self._thread = threading.Thread(target=self._write_on, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *more: object) -> None:
        sinks.remove(self.update)
        self._ended.set()
        self._has_news.set()
        self._thread.join(5)  # a store may not answer
        if self._is_there and (error is None or store_of(self._file).has_locks):
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _write_on(self) -> None:
        while not (self._has_news.wait(self._running.every_s) or self._has_begun()):
            pass
        while not self._ended.is_set():
            self._write()
            self._ended.wait(self._running.every_s)

    def _has_begun(self) -> bool:
        """True if a step has a work folder, which exists until it is complete."""
        with suppress(OSError):
            return self._work.is_dir()
        return False

    def _write(self) -> None:
        self._is_there = True
        now = replace(self._running, seen=time.time(), step=self._step, progress=self._progress)
        text = json.dumps(asdict(now), indent=1) + "\n"

        with suppress(OSError):
            if not store_of(self._file).is_quick:
                write_text(self._file, text)
                return
            # Without fsync: a power loss ends the command as well.
            temporary = self._file.with_name(f"{RUNNING}.tmp")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._file)


def _local(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def user() -> str:
    """The user's name; a number where the machine has no name for it, as in a container."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def line_of(run: Path, is_complete: bool) -> str:
    """The state of a run, in one line for people."""
    running = Running.read(run)
    if running is None:
        return (
            "complete: all that was begun"
            if is_complete
            else "stopped: the same command goes on where it was"
        )
    if running.is_gone(time.time()):
        last = f"last seen {_local(running.seen)} at {running.step or 'its begin'}"
        return f"stale: {running.who()}, is gone, {last}; the same command goes on where it was"
    return f"running: {running.position()}; {running.who()}"
