"""Work of a unit of a step: the common part of all functions that do units, whatever engine carries them.

Engines such as Flink, Spark and Dataflow give one process several units at once, on threads. Java's bridge,
lazy imports and the costs that a model counts are not safe for that. So one lock guards all units of a
process; to use more cores, run more processes.
"""

from __future__ import annotations

import pickle
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Protocol

from answermill.files.store import CACHE
from answermill.pipelines.errors import (
    INTERRUPTED,
    IO,
    UNAVAILABLE,
    JobError,
    causes,
    disk_message,
    is_unexpected,
)
from answermill.pipelines.revision import revision
from answermill.pipelines.runs.counts import Counts
from answermill.pipelines.runs.manifests.failures import FAILED_UNITS, Failures, Limits
from answermill.pipelines.runs.manifests.reports import Reports
from answermill.pipelines.runs.step import MARK
from answermill.pipelines.runs.watch.stopping import is_stopping
from answermill.schemas.plug_ins import Command, PlugInUnusable

_one_at_a_time = RLock()
_loaded: dict[type[UnitWork], UnitWork] = {}
"""Work of each class that loaded last. Beam releases work that was idle for a minute; what it loaded stays
here until this process gets a unit of another step."""


class Metrics(Protocol):
    """An engine's own numbers, which it shows while a step runs."""

    def count(self, name: str, number: int) -> None:
        """Add to a counter."""

    def measure(self, name: str, value: int) -> None:
        """Add to a distribution."""


class Work(ABC):
    """Work on elements, as an engine sees it; `name` is in messages, and in the names of metrics. `setup` and
    `teardown` are empty where a subclass needs neither."""

    name: str

    def setup(self) -> None:  # noqa: B027
        """Called once in a process, before its first element."""

    @abstractmethod
    def process(self, element: Any, metrics: Metrics | None = None) -> Iterable[Any]:
        """Do an element, which begins with its unit or key; returns the (key, value) pairs that it emits."""

    def teardown(self) -> None:  # noqa: B027
        """Called after the last element, unless the process ends before."""

    @abstractmethod
    def place(self, key: Any) -> str:
        """Name of the element of a unit or key in messages."""


class UnitWork(Work):
    """Does units of a step; an element is a tuple that begins with the unit's number.

    `work` is the step's work folder; a unit with a report there is skipped, since engines give out the same
    units again. When the command is to stop, every unit is skipped, or ends the pipeline if units emit
    something. Errors of a unit name the step and the unit. Subclasses define `work`, and `load` for what a
    worker process loads once; both run alone in their process, from the first import to the last result.

    A unit that fails by an unexpected error is tried again here, as often as the step's limits say. If it
    fails for good, `work` gets a record of that, and other units go on; the command decides its fate
    (`Commit.reported`).

    An engine with metrics gets the distribution `unit_milliseconds`, and a counter for each count of the
    reports that this process has written; a unit that is skipped counts nothing.
    """

    skips_reported: ClassVar[bool] = True
    """False if units emit something, so that a later stage of the pipeline waits for it."""
    may_be_missing: ClassVar[bool] = False
    """True if units emit something, and later stages do without the output of a unit that fails for good;
    else such a unit ends the pipeline (74)."""

    def __init__(self, step: str, work: Path, counts: type[Counts] = Counts) -> None:
        """`counts`: class of the counts that the units report."""
        self.name, self._work_folder, self._counts = step, work, counts

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the work within bytes, which a worker with another package than the command's leaves
        closed."""
        with _folder_checked(self.name, self._work_folder):
            pickled = pickle.dumps((type(self), vars(self)))
            return _opened, (self.name, revision(), Command.here(), self._work_folder, pickled)

    def prepare(self) -> None:
        """Called before `load` and before each `work`, in their thread, whose settings it may change."""

    def load(self) -> None:
        """Load what all units need."""

    @abstractmethod
    def work(self, unit: int, *rest: Any) -> Iterable[Any] | None:
        """Do a unit, from the rest of its element; return the pairs that it emits."""

    def place(self, unit: int) -> str:
        return f"{self.name}, unit {unit}"

    def setup(self) -> None:
        with _one_at_a_time, _errors_of(self.name, self._work_folder):
            self.prepare()
            try:
                CACHE.limit = round(self._limits.cache_gb * 1e9)
                self.load()
            except Exception:
                _check_folder(self._work_folder)  # `load` may read lists in it
                raise
            if any(other.name != self.name for other in _loaded.values()):
                _loaded.clear()
            _loaded[type(self)] = self

    def process(self, element: Any, metrics: Metrics | None = None) -> list[Any]:
        unit, *rest = element

        with _one_at_a_time, _errors_of(self.place(unit), self._work_folder):
            if is_stopping():
                if self.skips_reported:
                    return []
                # Or later stages would do without what it emits.
                raise JobError("the command is to stop", INTERRUPTED)

            _check_folder(self._work_folder)
            if self.skips_reported and Reports(self._work_folder, self._counts).has(unit):
                return []

            begin = time.monotonic()
            results = self._try(unit, *rest)
            if metrics is not None:
                self._measure(metrics, unit, None if results is None else time.monotonic() - begin)
            return results or []

    @cached_property
    def _limits(self) -> Limits:
        """Limits that the step began with."""
        return Limits.read(self._work_folder)

    def _try(self, unit: int, *rest: Any) -> list[Any] | None:
        """Pairs that the unit emits; None if it has failed for good."""
        for number in range(1, self._limits.tries + 1):
            try:
                self.prepare()
                return list(self.work(unit, *rest) or ())
            except Exception as e:
                if not is_unexpected(e):
                    raise
                if number == self._limits.tries:
                    self._fail(unit, e)
        return None

    def _fail(self, unit: int, error: Exception) -> None:
        """Record that a unit has failed for good. Raises JobError (74) if the pipeline cannot go on without
        it."""
        failures = Failures(self._work_folder)
        failure = failures.write(unit, error)
        if not (self.skips_reported or self.may_be_missing):
            raise JobError(f"{failure.reason}; the traceback is in {failures.folder}", IO)

    def _measure(self, metrics: Metrics, unit: int, seconds: float | None) -> None:
        """Add a unit that was tried just now to the metrics, whose numbers are whole; `seconds` is None if it
        has failed."""
        if seconds is None:
            metrics.count(FAILED_UNITS, 1)
            return

        metrics.measure("unit_milliseconds", round(1000 * seconds))
        report = Reports(self._work_folder, self._counts).read_one(unit) if self.skips_reported else None
        if report is None:
            return

        peaks = report.counts.peaks()
        for name, count in report.counts.flat():
            if name in peaks:
                metrics.measure(name, count)
            else:
                metrics.count(name, count)


def _check_folder(work: Path) -> None:
    """Raises JobError (74) where the command's folder is not seen."""
    if not (work / MARK).is_file():
        raise JobError(f"{platform.node()} sees no {work / MARK}: do all workers see that folder?", IO)


@contextmanager
def _folder_checked(step: str, work: Path) -> Iterator[None]:
    """Raise a JobError (74) where this machine does not see the run at all. A function may hold folders of
    the run, and its own errors name one of those."""
    with _errors_of(step, work):
        try:
            yield
        except JobError:
            _check_folder(work)
            raise


def _opened(step: str, revision_of_command: str, plug_ins: Command, work: Path, pickled: bytes) -> UnitWork:
    """A step's function in a worker. Raises JobError: 69 if the worker runs another revision of the package
    or of a plug-in, 74 if it does not see the folder of the run."""
    if revision() != revision_of_command:
        raise JobError(
            f"{step}: {platform.node()} runs revision {revision()} of answermill, the command "
            f"{revision_of_command}: install "
            "the same package on all machines, and type the same command; `answermill doctor` shows what a "
            "machine has",
            UNAVAILABLE,
        )

    try:
        plug_ins.join()
    except PlugInUnusable as e:
        raise JobError(f"{step}: {platform.node()}: {e}", UNAVAILABLE) from e

    with _folder_checked(step, work):
        kind, values = pickle.loads(pickled)
    function: UnitWork = kind.__new__(kind)
    vars(function).update(values)
    return function


@contextmanager
def _errors_of(place: str, work: Path) -> Iterator[None]:
    """Raise errors that a user can mend, or that were raised from one, as JobErrors that begin with the
    place; others get it as a note. So an engine may hand over the error or its text alone.

    A disk error without a file name concerns the run, whose folder of this step's work is `work`.
    """
    try:
        yield
    except Exception as e:
        for cause in causes(e):
            code = cause.code if isinstance(cause, JobError) else getattr(cause, "exit_code", None)
            if isinstance(code, int):
                # Or the command would show the first of the two.
                raise JobError(f"{place}: {cause}", code) from None
        for cause in causes(e):
            if isinstance(cause, OSError):
                raise JobError(f"{place}: {disk_message(cause, work.parent.parent)}", IO) from None
        e.add_note(place)
        raise
