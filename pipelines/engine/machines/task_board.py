"""The tasks of one call of an engine, as all machines at a run see them: which are done, and what they have
emitted.

A task that is done has a mark in the call's folder, `NUMBER.done`, with what it emitted: a length, an index
of keys and places, and the values (disk_values.py), or nothing. Of several machines' marks of a task the
first one stands: one of them may have given up what another could do. A unit that has a report needs no mark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import link_or_copy
from answermill.files.store import creating, fetch, in_parallel, put, requests_to
from answermill.pipelines.engine.disk_values import Places, Written, no_places, packed, unpacked
from answermill.pipelines.engine.machines.leases import Leases
from answermill.pipelines.runs.manifests.reports import Reports

_MARKED, _REPORTED = "done", "reported"
_LENGTH = 8
"""Bytes of the length of the index."""


class TaskBoard:
    """The tasks 0, 1, … of a call, or those in `numbers`; `folder` is the call's own, `label` its name among
    the leases."""

    def __init__(
        self, folder: Path, label: str, numbers: Iterable[int], leases: Leases, reports: Reports[Any] | None
    ) -> None:
        self._folder, self._label, self._leases, self._reports = folder, label, leases, reports
        self._numbers = list(numbers)
        self._done: dict[int, str] = {}
        """Number of each task that is done → how it is known."""
        self._waiting = deque[int]()
        self._own: set[int] = set()

    def refresh(self, first: int = 0) -> None:
        """Look at what is done, and queue all else, from place `first` on, so that machines which begin
        together begin at different places."""
        reported = self._reports.numbers() if self._reports is not None else ()
        self._done = dict.fromkeys(reported, _REPORTED)
        with suppress(FileNotFoundError):  # there is no mark
            for path in self._folder.iterdir():
                number, _, kind = path.name.partition(".")
                if kind == _MARKED:
                    self._done[int(number)] = kind
        self._leases.refresh()

        order = deque(
            number for number in self._numbers if number not in self._done and number not in self._own
        )
        order.rotate(-(first % max(1, len(order))))
        self._waiting = order

    @property
    def count(self) -> int:
        """Number of tasks that are done, as far as this machine knows."""
        return sum(number in self._done for number in self._numbers)

    def is_done(self) -> bool:
        """True if all tasks are done, as far as this machine knows."""
        return self._done.keys() >= set(self._numbers)

    def take(self) -> int | None:
        """A task that this machine does now; None if each is done, or another machine's, as far as it
        knows."""
        while self._waiting:
            number = self._waiting.popleft()
            if not self._leases.take(self._lease(number)):
                continue
            # The machine that had the lease may have done it since.
            if (mark := self._mark_now(number)) is None:
                self._own.add(number)
                return number
            self._done[number] = mark
            self._leases.give_back(self._lease(number))
        return None

    def _mark_now(self, number: int) -> str | None:
        """How it is known that a task is done; None if it is not."""
        if self._path(number).is_file():
            return _MARKED
        return _REPORTED if self._reports is not None and self._reports.has(number) else None

    def finish(self, number: int, written: Written, file: Path) -> None:
        """Mark a task of this machine as done; `written` are the values that it has emitted into `file`."""
        path = self._path(number)
        with creating(path) as new:
            new.write_bytes(_mark(written, file) if written else b"")
            put(new, path, replace=False)

        self._done[number] = _MARKED
        self._own.discard(number)
        self._leases.give_back(self._lease(number))

    def values(self, folder: Path, first: int) -> Places:
        """Places of all values that the tasks have emitted, in files of this machine in `folder`, which get
        the names `first`, `first` + 1, …."""
        emitted, numbers = no_places(), [n for n in self._numbers if self._done[n] == _MARKED]
        marks = [self._path(number) for number in numbers]
        for name, mark in enumerate(in_parallel(fetch, marks, requests_to(self._folder)), first):
            if not mark.stat().st_size:
                continue
            link_or_copy(mark, folder / str(name))
            with (folder / str(name)).open("rb") as file:
                length = int.from_bytes(file.read(_LENGTH), "big")
                index = unpacked(file.read(length))
            for key, start, size in index:
                emitted[key].extend((name, _LENGTH + length + start, size))
        return emitted

    def _lease(self, number: int) -> str:
        return f"{self._label}-{number:06d}"

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.{_MARKED}"


def _mark(written: Written, file: Path) -> bytes:
    """The content of a mark with values, which stand in `file` one after the other."""
    start = written[0][1]
    index = packed([[key, place - start, size] for key, place, size in written])
    with file.open("rb") as values:
        values.seek(start)
        return len(index).to_bytes(_LENGTH, "big") + index + values.read(sum(each[2] for each in written))
