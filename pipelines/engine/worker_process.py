"""A worker process: `python -m answermill.pipelines.engine.worker_process NUMBER FOLDER FORM SOCKET [STOP]`.

NUMBER: name of its file of values in FOLDER. FORM: that of the command's lines, text or json. SOCKET: the
descriptor of its tasks and their results. STOP: the descriptor that says when no further unit is to begin
(stopping.py). The process ends at once when the command is gone, whatever is at work.

Messages are pickled, as work is an object of any class. The socket is one of a pair that the command made
for the process that it started itself: nobody else can write to it, and nothing of it is kept.
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
from typing import Any, Literal, TypeAlias

from answermill.pipelines.engine.disk_values import KeyValues, ValueWriter, Written
from answermill.pipelines.engine.protocol import Key
from answermill.pipelines.engine.unit_work import Work
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.runs.watch.stopping import follow

KeyTask: TypeAlias = tuple[Key, "array[int] | None"]
"""A unit; or a key, and the places of its values."""


class Worker:
    """Does tasks, one piece of work after the other; `folder` is that of all values.

    Each worker process has one; without such processes the command does.
    """

    def __init__(self, folder: Path, number: int = 0) -> None:
        self._folder, self._writer = folder, ValueWriter(folder, number)
        self._work: Work | None = None

    def do(self, work: Work, task: KeyTask) -> Written:
        """Do a task, and write what it emits; the first one of other work ends the former work."""
        if work is not self._work:
            self._end()
            work.setup()
            self._work = work
        key, places = task
        element = (key,) if places is None else (key, KeyValues(self._folder, places))
        return self._writer.write(work.process(element))

    def _end(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.teardown()

    def close(self) -> None:
        self._end()
        self._writer.close()


def main(number: str, folder: str, form: Literal["text", "json"], socket: str, *stop: str) -> None:
    """Do the tasks of all messages, one after the other."""
    log_lines.choose(form)
    connection, messages = Connection(int(socket)), SimpleQueue[Any]()
    Thread(target=_receive, args=(connection, messages), daemon=True).start()
    for descriptor in stop:
        follow(int(descriptor))
    logging.disable(logging.ERROR)  # the command reports each error once
    worker = Worker(Path(folder), int(number))
    work: Any = None  # the first message brings one

    while True:
        pickled, task = messages.get()
        try:
            work = pickle.loads(pickled) if pickled else work
            connection.send((None, worker.do(work, task)))
        except Exception as e:
            connection.send((_sendable(e), traceback.format_exc()))


def _receive(connection: Connection, messages: SimpleQueue[Any]) -> None:
    """Receive messages until the command closes the connection, or is gone; then end the process."""
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
    main(*sys.argv[1:])  # type: ignore[arg-type]  # as worker_pool.py writes them
