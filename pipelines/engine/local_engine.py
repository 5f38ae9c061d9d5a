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
from answermill.pipelines.engine.protocol import GroupFunction, Units, as_work
from answermill.pipelines.engine.unit_work import UnitWork, Work
from answermill.pipelines.engine.worker_pool import WorkerPool
from answermill.pipelines.engine.worker_process import KeyTask, Worker
from answermill.pipelines.errors import Stopped
from answermill.pipelines.runs.watch.stopping import is_stopping


class LocalEngine:
    """Does each call's work at once, in `processes` processes; `folder` is for values."""

    def __init__(self, processes: int, folder: Path) -> None:
        self._workers = WorkerPool(processes, folder) if processes > 1 else OwnProcess(folder)

    def each(self, label: str, units: Units, work: UnitWork, after: object = None) -> Places:
        return self._do(work, ((number, None) for number in units.pending()))

    def group(
        self, label: str, pairs: Sequence[Places], work: UnitWork | GroupFunction, every: Units | None = None
    ) -> Places:
        places = no_places()
        for number in every.pending() if every is not None else ():
            places[number]
        for places_by_key in pairs:
            for key, key_places in places_by_key.items():
                places[key].extend(key_places)
        return self._do(as_work(label, work), places.items())

    def _do(self, work: Work, tasks: Iterable[KeyTask]) -> Places:
        """Raises Stopped, when the tasks at work are done, if the command is to stop."""
        emitted = no_places()
        for number, written in self._workers.do(work, takewhile(lambda _: not is_stopping(), tasks)):
            for key, start, length in written:
                emitted[key].extend((number, start, length))
        if is_stopping():
            raise Stopped("between two units")
        return emitted

    def close(self) -> None:
        self._workers.close()


class OwnProcess:
    """The command's own process in the place of a pool."""

    def __init__(self, folder: Path) -> None:
        self._worker = Worker(folder)

    def do(self, work: Work, tasks: Iterable[KeyTask]) -> Iterator[tuple[int, Written]]:
        return ((0, self._worker.do(work, task)) for task in tasks)

    def close(self) -> None:
        self._worker.close()


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
