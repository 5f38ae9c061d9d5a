"""The engine of one machine: a loop in the command's own process, or several worker processes with a task at
a time each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from answermill.files.remote import Remote
from answermill.pipelines.engine.disk_values import Places, Written, no_places
from answermill.pipelines.engine.protocol import GroupFunction, Key, Units, as_work
from answermill.pipelines.engine.unit_work import UnitWork, Work
from answermill.pipelines.engine.worker_pool import WorkerPool
from answermill.pipelines.engine.worker_process import KeyTask, Worker
from answermill.pipelines.errors import Stopped
from answermill.pipelines.runs.watch.stopping import is_stopping


class LocalEngine:
    """Does each call's work at once, in `processes` processes; `folder` is for values."""

    def __init__(self, processes: int, folder: Path) -> None:
        self._workers = workers(processes, folder)

    def each(self, label: str, units: Units, work: UnitWork, after: object = None) -> Places:
        return self._do(work, ((number, None) for number in units.pending()))

    def group(
        self, label: str, pairs: Sequence[Places], work: UnitWork | GroupFunction, every: Units | None = None
    ) -> Places:
        keys = every.pending() if every is not None else ()
        return self._do(as_work(label, work), grouped(pairs, keys).items())

    def _do(self, work: Work, tasks: Iterable[KeyTask]) -> Places:
        """Raises Stopped, when the tasks at work are done, if the command is to stop."""
        emitted = no_places()
        for number, _, written in self._workers.do(work, takewhile(lambda _: not is_stopping(), tasks)):
            for key, start, length in written:
                emitted[key].extend((number, start, length))
        if is_stopping():
            raise Stopped("between two units")
        return emitted

    def close(self) -> None:
        self._workers.close()


def grouped(pairs: Sequence[Places], keys: Iterable[Key]) -> Places:
    """The places of each key's values in all `pairs`; `keys` are there even if they have none."""
    places = no_places()
    for key in keys:
        places[key]
    for places_by_key in pairs:
        for key, key_places in places_by_key.items():
            places[key].extend(key_places)
    return places


class OwnProcess:
    """The command's own process in the place of a pool."""

    def __init__(self, folder: Path) -> None:
        self._worker = Worker(folder)

    def do(self, work: Work, tasks: Iterable[KeyTask]) -> Iterator[tuple[int, KeyTask, Written]]:
        return ((0, task, self._worker.do(work, task)) for task in tasks)

    def close(self) -> None:
        self._worker.close()


def workers(processes: int, folder: Path) -> WorkerPool | OwnProcess:
    """What does the tasks of this machine; `folder` is for values."""
    return WorkerPool(processes, folder) if processes > 1 else OwnProcess(folder)


@contextmanager
def local_engine(processes: int, work: Path) -> Iterator[LocalEngine]:
    """An engine for the block; `work`: the step's work folder, which holds values while the block lasts."""
    folder = (
        Path(tempfile.mkdtemp(prefix="answermill-values-")) if isinstance(work, Remote) else work / "values"
    )
    engine = LocalEngine(processes, folder)
    try:
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
