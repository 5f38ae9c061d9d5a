"""The engine of several machines: each of them makes the same calls, does the tasks whose leases it gets, and
goes on when all tasks of the call are done, on any machine.

Nobody hands out work. A call's tasks are its units, or its keys in their order, so all machines number them
alike; what tasks have emitted lies in the run folder, and each machine reads it for the next call.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from answermill.files.store import remove_if_empty, remove_tree, store_of
from answermill.pipelines.engine.disk_values import Places, packed
from answermill.pipelines.engine.local_engine import grouped, workers
from answermill.pipelines.engine.machines.leases import Leases
from answermill.pipelines.engine.machines.members import MACHINES, Members, NotOurs, SharedBlock
from answermill.pipelines.engine.machines.task_board import TaskBoard
from answermill.pipelines.engine.protocol import GroupFunction, Units, as_work
from answermill.pipelines.engine.unit_work import UnitWork, Work
from answermill.pipelines.engine.worker_process import KeyTask
from answermill.pipelines.errors import Stopped
from answermill.pipelines.runs.manifests.manifest import Manifest, read_manifest
from answermill.pipelines.runs.manifests.reports import Reports
from answermill.pipelines.runs.step import MARK
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.runs.watch.stopping import is_stopping

_LOOK_S = 5.0
"""Seconds after which a machine that has no free task, but busy workers, looks for some again."""


class SharedEngine:
    """This machine's share of the calls of a block; `folder` is this machine's own, for values.

    `confirm` raises NotOurs if the block is over, and `pause` waits until it is time to look again.
    """

    def __init__(
        self,
        block: SharedBlock,
        members: Members,
        folder: Path,
        processes: int,
        *,
        confirm: Callable[[], object],
        pause: Callable[[], object],
        shows_progress: bool,
    ) -> None:
        self._work = members.run / block.work
        self._shared = self._work / MACHINES
        self._leases = Leases(self._shared / "leases", members)
        self._block, self._members, self._folder = block, members, folder
        self._confirm, self._pause, self._shows_progress = confirm, pause, shows_progress
        self._workers, self._calls = workers(processes, folder), 0
        # Behind the files of the workers, which have their numbers.
        self._next_file = processes
        folder.mkdir(parents=True, exist_ok=True)

    def each(self, label: str, units: Units, work: UnitWork, after: object = None) -> Places:
        return self._do(label, work, {number: (number, None) for number in units.numbers()}, units.but)

    def group(
        self, label: str, pairs: Sequence[Places], work: UnitWork | GroupFunction, every: Units | None = None
    ) -> Places:
        places = grouped(pairs, every.numbers() if every is not None else ())
        if isinstance(work, UnitWork):  # whose keys are units
            tasks: Mapping[int, KeyTask] = {int(key): (key, values) for key, values in places.items()}
        else:
            tasks = dict(enumerate(sorted(places.items(), key=lambda item: packed(item[0]))))
        return self._do(label, as_work(label, work), tasks, every.but if every is not None else None)

    def _do(
        self, label: str, work: Work, tasks: Mapping[int, KeyTask], reports: Reports[Any] | None
    ) -> Places:
        """Do tasks until all are done; return what they all have emitted. Raises Stopped, when the tasks at
        work are done, if the command is to stop."""
        self._calls += 1
        name = f"{self._calls:02d}-{re.sub('[^a-z]+', '-', label.lower())}"
        board = TaskBoard(
            self._shared / self._block.attempt / name, name, sorted(tasks), self._leases, reports
        )
        numbers = {task[0]: number for number, task in tasks.items()}
        first = crc32(self._members.name.encode())
        shown = progress(work.name, len(tasks), lambda: board.count, what="units of all machines")

        with shown if self._shows_progress else nullcontext():
            board.refresh(first)
            while not board.is_done():
                for worker, (key, _), written in self._workers.do(work, self._offers(board, tasks)):
                    number = numbers[key]
                    board.finish(number, written, self._folder / str(worker))
                    self._members.count_unit()
                    self._take_back_if_over(reports, number)
                if is_stopping():
                    raise Stopped("between two units")
                self._confirm()
                if not board.is_done():
                    self._pause()
                    board.refresh(first)

        emitted = board.values(self._folder, self._next_file)
        self._next_file += len(tasks)
        return emitted

    def _offers(self, board: TaskBoard, tasks: Mapping[int, KeyTask]) -> Offers:
        looked = time.monotonic()

        def take() -> KeyTask | None:
            nonlocal looked
            if is_stopping() or self._is_over():
                return None
            number = board.take()
            # While other workers of this machine are busy, a lost machine's tasks may be free by now.
            if number is None and time.monotonic() - looked > _LOOK_S:
                board.refresh()
                looked, number = time.monotonic(), board.take()
            return None if number is None else tasks[number]

        return Offers(take)

    def _is_over(self) -> bool:
        """True if no further task is to begin, while those of other workers of this machine end."""
        try:
            self._confirm()
        except NotOurs:
            return True
        return False

    def _take_back_if_over(self, reports: Reports[Any] | None, unit: int) -> None:
        """Remove what this machine wrote for a unit of a step that others have completed meanwhile, since
        they took it to be lost. Raises as `confirm`."""
        if (self._work / MARK).is_file():
            return
        report = reports.read_one(unit) if reports is not None and reports.home is not None else None
        if report is not None and reports is not None and reports.home is not None:
            for name, parts in report.parts.items():
                if (manifest := read_manifest(reports.home / name)) is None:
                    return  # the step begins anew
                _remove_unnamed(reports.home / name, manifest, [part.file for part in parts])
        remove_tree(self._work)
        self._confirm()

    def close(self) -> None:
        """End the workers, even in the middle of a task, and give this machine's leases back."""
        self._workers.close()
        self._leases.give_all_back()


def _remove_unnamed(folder: Path, manifest: Manifest, files: Sequence[str]) -> None:
    """Remove those files, or shards, of a committed folder that its manifest does not name."""
    named = {part.file for part in manifest.parts}
    for path in (folder / file for file in files if file not in named):
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)


class Offers(Iterator[KeyTask]):
    """Tasks as they can be had: it ends when there is none now, and may go on later."""

    def __init__(self, take: Callable[[], KeyTask | None]) -> None:
        self._take = take

    def __next__(self) -> KeyTask:
        task = self._take()
        if task is None:
            raise StopIteration
        return task


@contextmanager
def shared_engine(
    block: SharedBlock,
    members: Members,
    processes: int,
    *,
    confirm: Callable[[], object],
    pause: Callable[[], object],
    shows_progress: bool,
) -> Iterator[SharedEngine]:
    """This machine's engine for a block; its values are in a folder that no other uses, while the block
    lasts."""
    work = members.run / block.work
    folder = (
        work / f"values-{members.name}"
        if store_of(work).is_local
        else Path(tempfile.mkdtemp(prefix="answermill-values-"))
    )
    engine = SharedEngine(
        block,
        members,
        folder,
        processes,
        confirm=confirm,
        pause=pause,
        shows_progress=shows_progress,
    )
    try:
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
        if store_of(work).is_local:
            with suppress(FileNotFoundError):  # the step is complete, and its work folder is gone
                remove_if_empty(work)
