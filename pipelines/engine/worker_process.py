"""A worker process: `python -m answermill.pipelines.engine.worker_process NUMBER FOLDER SOCKET [STOP]`.

NUMBER and FOLDER: its file of values, and where. SOCKET: the descriptor on which its tasks come, and their results go. STOP:
that which says when no unit is to begin any more (stopping.py). The process ends at once when the command is gone, whatever
is at work.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import traceback
from array import array
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from answermill.pipelines.engine.disk_values import Values, ValueWriter, Written
from answermill.pipelines.engine.protocol import Key
from answermill.pipelines.engine.unit_dofn import Work
from answermill.pipelines.runs.watch.stopping import follow

Task: TypeAlias = tuple[Key, "array[int] | None"]
"""A unit; or a key, and where its values are."""


class Worker:
    """Does tasks, those of one piece of work after the other; `folder` is that of all values.

    A worker process has one, or else the command itself.
    """

    def __init__(self, folder: Path, number: int = 0) -> None:
        self._folder, self._number = folder, number
        self._writer = ValueWriter(folder, number)
        self._work: Work | None = None

    def begin(self, work: Work) -> None:
        self.end()
        work.setup()
        self._work = work

    def do(self, task: Task) -> Written:
        assert self._work is not None
        key, places = task
        element: tuple[Any, ...] = (key,) if places is None else (key, Values(self._folder, places))
        return self._writer.write(self._work.process(element))

    def end(self) -> None:
        """The work has no further task."""
        work, self._work = self._work, None
        if work is not None:
            work.teardown()

    def close(self) -> None:
        self.end()
        self._writer.close()


def main(number: str, folder: str, socket: str, *stop: str) -> None:
    """Do the tasks that come, one after the other."""
    connection, messages = Connection(int(socket)), SimpleQueue[Any]()
    Thread(target=_receive, args=(connection, messages), daemon=True).start()
    for descriptor in stop:
        follow(int(descriptor))
    logging.disable(logging.ERROR)  # the command says once what is raised
    worker = Worker(Path(folder), int(number))
    while True:
        work, task = messages.get()
        try:
            if work is not None:
                worker.begin(pickle.loads(work))
            connection.send((None, worker.do(task)))
        except Exception as e:
            connection.send((_sendable(e), traceback.format_exc()))


def _receive(connection: Connection, messages: SimpleQueue[Any]) -> None:
    """Take messages until the command closes the connection, or is gone; then end the process."""
    while True:
        try:
            messages.put(connection.recv())
        except (EOFError, OSError):
            os._exit(1)


def _sendable(error: Exception) -> Exception:
    """The error, or one with its words where the class cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the class does when it is pickled
        return RuntimeError("".join(traceback.format_exception_only(error)).strip())
    return error


if __name__ == "__main__":
    main(*sys.argv[1:])
