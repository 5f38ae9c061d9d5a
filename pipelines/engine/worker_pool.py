"""Worker processes of the command, as it sees them: each does one task at a time, and ends with the command.

They are started anew rather than forked, since a process with threads, or with a Java in it, has no sound
copy. A socket pair leads to each; nothing listens. Messages are pickled: both ends are this command's own
processes, on one machine.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from answermill.pipelines.engine.unit_work import Work
from answermill.pipelines.errors import INTERRUPTED, UNEXPECTED, JobError
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.runs.watch.stopping import descriptor

CARDS = "CUDA_VISIBLE_DEVICES"
"""The variable that lists the graphics cards that a process sees."""


class WorkerPool:
    """Up to `count` worker processes, which are started when there are tasks for them."""

    def __init__(self, count: int, folder: Path) -> None:
        self._count, self._folder = count, folder
        self._workers: list[_WorkerProcess] = []

    def do(self, work: Work, tasks: Iterable[Any]) -> Iterator[tuple[int, Any, Any]]:
        """(number of the worker, the task, its result) of each task, as they end. Raises a task's error: a
        stop of the command when all tasks at work have ended, any other at once.

        An iterator that has no task may have one later: it is asked again when a task has ended."""
        pickled, waiting = pickle.dumps(work), iter(tasks)
        idle, busy = list(self._workers), dict[Any, tuple[_WorkerProcess, Any]]()
        stopped: JobError | None = None

        while True:
            while idle or len(self._workers) < self._count:
                try:
                    task = next(waiting)
                except StopIteration:
                    break
                if not idle:
                    self._workers.append(_WorkerProcess(len(self._workers), self._folder))
                    idle.append(self._workers[-1])
                worker = idle.pop()
                worker.send(work, pickled, task)
                busy[worker.connection] = worker, task

            if not busy and stopped is not None:
                raise stopped
            if not busy:
                return

            for connection in wait(list(busy)):
                worker, task = busy.pop(connection)
                idle.append(worker)
                try:
                    result = worker.result()
                except JobError as e:
                    if e.code != INTERRUPTED:
                        raise
                    stopped, waiting = e, iter(())
                    continue
                yield worker.number, task, result

    def close(self) -> None:
        """End all workers, even in the middle of a task."""
        for worker in self._workers:
            worker.close()


class _WorkerProcess:
    """A process `python -m answermill.pipelines.engine.worker_process`."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self._place = number, ""
        self._work: Work | None = None
        self.connection, other = Pipe()
        ends = [end for end in (other.fileno(), descriptor()) if end is not None]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "answermill.pipelines.engine.worker_process",
                str(number),
                str(folder),
                "json" if log_lines.is_json() else "text",
                *map(str, ends),
            ],
            env={**os.environ, **card_of(number)},
            stdin=subprocess.DEVNULL,
            pass_fds=ends,
            # Ctrl-C on the terminal reaches the command alone, which then ends its workers.
            start_new_session=True,
        )

        other.close()

    def send(self, work: Work, pickled: bytes, task: Any) -> None:
        """Let it do a task; the work itself is sent once."""
        self._place = work.place(task[0])
        try:
            self.connection.send((None if self._work is work else pickled, task))
        except OSError:
            raise self._died() from None
        self._work = work

    def result(self) -> Any:
        """Result of its task. Raises the task's error, or JobError (70) if the process has ended."""
        try:
            error, result = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if error is not None:
            raise error from (
                None if isinstance(error, JobError) else RuntimeError(f"in a worker process\n{result}")
            )
        return result

    def _died(self) -> JobError:
        return JobError(
            f"{self._place}: a worker process ended with {self._process.wait()}, perhaps for lack of "
            "memory; lower "
            "workers.processes, and type the same command: it goes on where it was",
            UNEXPECTED,
        )

    def close(self) -> None:
        self._process.kill()
        self.connection.close()
        self._process.wait()


def card_of(
    number: int, environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")
) -> dict[str, str]:
    """The variable that gives a worker one of the graphics cards that the command sees, in turns by its
    number. Empty where there is at most one card, which all workers share."""
    visible = environment.get(CARDS)
    cards = (
        visible.split(",")
        if visible is not None
        else [str(n) for n, _ in enumerate(devices.glob("nvidia[0-9]*"))]
    )
    return {CARDS: cards[number % len(cards)].strip()} if len(cards) > 1 else {}
