"""Work done within the units of a step: a worker writes it into a small file, and the command adds the files
up.

The files are for people only: a worker that cannot write them goes on, and without them, as in an object
store, the command counts the units that are done. A unit's file is removed when the unit has reported.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from answermill.files.store import store_of
from answermill.pipelines.runs.manifests.reports import units_done
from answermill.pipelines.runs.watch.progress import Done

_EVERY_S = 2.0
_LIST_EVERY_S = 10.0
"""Seconds between two listings of an object store."""
_PREFIX = "progress-"


class Meter:
    """Count of items done by an attempt at one unit. Use as a context manager around the work and its
    report."""

    def __init__(self, work: Path, unit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = work / f"{_PREFIX}{unit:05d}-{uuid.uuid4().hex[:8]}.json"
        self._clock = clock
        self._next = 0.0 if store_of(work).is_quick else float("inf")
        self._items = self._kept = 0

    def add(self, items: int, kept: int = 0) -> None:
        """Count some more items; an earlier attempt did `kept` of them. Writes the file at most every two
        seconds."""
        self._items += items
        self._kept += kept
        if self._clock() >= self._next:
            self._next = self._clock() + _EVERY_S
            temporary = self._file.with_suffix(".tmp")
            with suppress(OSError):
                temporary.write_text(json.dumps([self._items, self._kept]), encoding="utf-8")
                temporary.replace(self._file)

    def reach(self, items: int) -> None:
        """Count up to `items`, from the start of the unit."""
        self.add(items - self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if store_of(self._file).is_quick:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)


class Meters:
    """Sum of the items done by all units of a step. `sizes`: the items of each unit, by its number."""

    def __init__(self, work: Path, sizes: Sequence[int]) -> None:
        self._work, self._sizes = work, sizes
        self._kept: dict[int, int] = {}
        self._known: set[int] = set()
        self._next_look = 0.0

        if store_of(work).is_quick:
            work.mkdir(parents=True, exist_ok=True)
            for killed in work.glob(f"{_PREFIX}*"):
                killed.unlink(missing_ok=True)

    def done(self) -> Done:
        """The work done by now; of several attempts at a unit, the most advanced one counts."""
        # Before the reports: a unit's file is removed after its report is written.
        attempts = list(_files(self._work))
        finished = self._finished()

        items = {unit: self._sizes[unit] for unit in finished}
        for unit, done, kept in attempts:
            items[unit] = max(items.get(unit, 0), min(done, self._sizes[unit]))
            self._kept[unit] = max(self._kept.get(unit, 0), kept)
        return Done(sum(items.values()), sum(self._kept.values()), len(finished))

    def _finished(self) -> set[int]:
        """The units that have reported, as of some seconds ago in an object store. When all have, nothing is
        listed again."""
        now = time.monotonic()
        if now >= self._next_look and len(self._known) < len(self._sizes):
            self._next_look = now if store_of(self._work).is_quick else now + _LIST_EVERY_S
            self._known = units_done(self._work)
        return self._known


def _files(work: Path) -> Iterator[tuple[int, int, int]]:
    """(unit, items done, items kept) of each file; a file that is gone or cut short is skipped."""
    for path in work.glob(f"{_PREFIX}*.json") if store_of(work).is_quick else ():
        with suppress(OSError, ValueError):
            done, kept = json.loads(path.read_text(encoding="utf-8"))
            yield int(path.name.split("-")[1]), done, kept


def add_up(passes: Sequence[Meters]) -> Done:
    """Sum of the work done by several passes over the same units."""
    return Done(*map(sum, zip(*(meters.done() for meters in passes), strict=True)))
