"""The machines at a run, as each of them sees the others.

A machine is a command; its file `_machines/NAME.json` says who it is, what it does, and counts up. Nobody
compares clocks: an observer measures by its own clock, from its own start, how long it has looked at a count
that does not move. After the seconds that the machine itself has named it is taken to be lost. A machine that
ends removes its file.
"""

from __future__ import annotations

import json
import os
import platform
import re
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.store import is_alive, store_of
from answermill.pipelines.errors import IO, UNAVAILABLE, JobError
from answermill.pipelines.runs.watch.live import user

MACHINES = "_machines"
"""Folder of a run with the files of the machines at work on it; removed when the run is complete."""
BEATS = 12
"""How often a machine counts up in the time after which it would be taken to be lost."""
LEADER, ENDED = re.compile(r"leader-(\d+)\.json"), "ended-"
"""Names of the files of terms: who leads, and the error that ended it."""
POLL_S, POLL_S_IN_STORE = 0.5, 5.0
"""Most seconds between two looks at what others have done."""


class NotOurs(Exception):
    """The block is over, or another machine leads by now."""


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """Work that a machine has opened for all: calls of an engine, one after the other."""

    step: str
    name: str
    """The step, or `STEP/PASS`."""
    work: str
    """Path of its work folder in the run; it has the fingerprint in its name."""
    machine: str
    """Name of the machine that has opened it."""
    term: int
    """The term in which that machine leads."""
    number: int
    """Number of the block in the term."""

    @property
    def attempt(self) -> str:
        """Name that no other block of the run has."""
        return f"{self.term:05d}-{self.number:03d}"


@dataclass(frozen=True, slots=True)
class State:
    """What a machine says of itself."""

    name: str
    host: str
    user: str
    pid: int
    place: str
    """Stands for the running kernel and its numbers of processes; '' where that is not known."""
    lapse_s: float
    """Seconds without a sign after which the machine is lost."""
    count: int = 0
    doing: str = ""
    units: int = 0
    """Units that it has done."""
    block: SharedBlock | None = None
    """The block that it has opened, if it leads and one is open."""
    is_over: bool = False
    """True when the machine that leads has finished the last step."""

    @classmethod
    def of_this(cls, lapse_s: float) -> Self:
        host = platform.node()
        name = f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        return cls(name, host, user(), os.getpid(), this_place(), lapse_s)

    def who(self) -> str:
        """'pid 17 of anna on node3'."""
        return f"pid {self.pid} of {self.user} on {self.host}"

    def has_ended(self) -> bool:
        """True if this machine can see that its process is gone."""
        return self.place != "" and self.place == this_place() and not is_alive(self.pid)


def this_place() -> str:
    """The running kernel and the numbering of processes; '' where a machine does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def read_shape(file: Path, shape: type[Any]) -> Any:
    """Content of a file in `_machines`. Raises FileNotFoundError; JobError (69) if another version of the
    package has written it."""
    try:
        return read_json(file, shape)
    except WrongShape as e:
        raise JobError(
            f"{e}: another version of answermill works on this run; install the same package on all "
            "machines, `answermill doctor` shows what a machine has",
            UNAVAILABLE,
        ) from e


def states(run: Path) -> tuple[dict[str, State], int]:
    """Name → what it says, of each machine that has a file; and the number of the last term, 0 if there is
    none."""
    states_by_name, last_term = dict[str, State](), 0
    for file in _listed(run / MACHINES):
        if (term := LEADER.fullmatch(file.name)) is not None:
            last_term = max(last_term, int(term[1]))
        elif file.suffix == ".json" and not file.name.startswith((".", ENDED)):
            with suppress(FileNotFoundError):  # it has ended
                states_by_name[file.stem] = read_shape(file, State)
    return states_by_name, last_term


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


class Members:
    """The machines at a run, with this one among them while the block lasts."""

    def __init__(self, run: Path, lapse_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.run, self.folder, self._clock = run, run / MACHINES, clock
        self.beat_s = lapse_s / BEATS
        self.poll_s = min(POLL_S if store_of(run).is_quick else POLL_S_IN_STORE, self.beat_s)
        self._state = State.of_this(lapse_s)
        self._writing, self._looking = threading.Lock(), threading.Lock()
        self._states: dict[str, State] = {}
        self._moved: dict[str, tuple[int, float]] = {}  # name → (count, when it was first seen)
        self._lost: set[str] = set()
        self.last_term = 0
        """The number of the last term, at the last look."""
        self._ended = threading.Event()

    @property
    def name(self) -> str:
        """This machine's."""
        return self._state.name

    def __enter__(self) -> Self:
        self._write()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(5)  # a store may not answer
        with suppress(OSError):
            self._file(self.name).unlink(missing_ok=True)

    def say(self, **changes: Any) -> None:
        """Tell the others at once."""
        with self._writing:
            self._state = replace(self._state, **changes)
        self._write()

    def count_unit(self) -> None:
        """Tell the others, with the next sign, that a unit is done."""
        with self._writing:
            self._state = replace(self._state, units=self._state.units + 1)

    @property
    def units(self) -> int:
        """Units that this machine has done."""
        return self._state.units

    def look(self) -> dict[str, State]:
        """What all machines say now. A count that has not moved is judged only here, after the look: so a
        time in which this machine was held up, or saw no file, counts against nobody."""
        with self._looking:
            now_states, self.last_term = states(self.run)
            now = self._clock()
            for name, state in now_states.items():
                if name not in self._moved or self._moved[name][0] != state.count:
                    self._moved[name] = (state.count, now)
                    self._lost.discard(name)
                elif now - self._moved[name][1] > state.lapse_s or state.has_ended():
                    self._lost.add(name)
            self._states = now_states
            return now_states

    def has_left(self, name: str) -> bool:
        """True if a machine has ended, or was taken to be lost at the last look."""
        if name == self.name:
            return False
        return name in self._lost or (name not in self._states and not self._file(name).is_file())

    def state(self, name: str) -> State | None:
        """What a machine said at the last look."""
        return self._states.get(name)

    def _beat(self) -> None:
        """Count up, and look at the others, until the block ends."""
        while not self._ended.wait(self.beat_s):
            with self._writing:
                self._state = replace(self._state, count=self._state.count + 1)
            with suppress(OSError, JobError):  # the next one may be written
                self._write()
                self.look()

    def _write(self) -> None:
        with self._writing:
            text = json.dumps(asdict(self._state), indent=1) + "\n"
            file = self._file(self.name)
            if not store_of(file).is_quick:
                write_text(file, text)
                return
            # Without fsync: a power loss ends the command as well.
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}.tmp")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(file)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def create(file: Path, values: Any, is_own: Callable[[], bool]) -> bool:
    """Create a file that only the first of several machines can create; False if another one was first.

    `is_own` reads if it is this machine's: a store may have created it, and its answer be lost.
    """
    if write_text(file, json.dumps(values) + "\n", replace=False):
        return True
    try:
        return is_own()
    except FileNotFoundError:  # it is gone again
        return False
    except OSError as e:
        raise JobError(f"{file}: {e}", IO) from e
