"""Leases of tasks: each task is done by the machine that has its lease, until that machine is lost.

A lease is a file `TASK.GENERATION` that holds the name of its machine, and is created once: the first machine
has it. It is not renewed; the machine's own sign of life (members.py) stands for all of its leases. If the
machine is lost, the next generation may be created, again by the first who does. A lost machine that lives
after all goes on with its task: the first report of a unit stands, so a lease saves work and decides no byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from answermill.files.store import in_parallel, requests_to
from answermill.pipelines.engine.machines.members import Members, create


class Leases:
    """The leases in a folder, as this machine sees them and takes them."""

    def __init__(self, folder: Path, members: Members) -> None:
        self._folder, self._members = folder, members
        self._highest: dict[str, int] = {}
        self._owners: dict[tuple[str, int], str] = {}
        self._own: dict[str, int] = {}

    def refresh(self) -> None:
        """List the leases again, and read whose the new ones are."""
        highest: dict[str, int] = {}
        with suppress(FileNotFoundError):  # there is none
            for path in self._folder.iterdir():
                task, _, generation = path.name.rpartition(".")
                if generation.isdigit() and not task.startswith("."):
                    highest[task] = max(highest.get(task, 0), int(generation))
        self._highest = highest
        self._read(key for key in highest.items() if key not in self._owners)

    def _read(self, keys: Iterable[tuple[str, int]]) -> None:
        wanted = list(keys)
        owners = in_parallel(self._owner, wanted, requests_to(self._folder))
        self._owners |= {key: owner for key, owner in zip(wanted, owners, strict=True) if owner}

    def _owner(self, key: tuple[str, int]) -> str:
        """The machine of a lease; '' if it was given back."""
        try:
            return self._path(*key).read_text(encoding="utf-8").strip().strip('"')
        except FileNotFoundError:
            return ""

    def take(self, task: str) -> bool:
        """True if this machine has the task's lease now; False if another one has it that is not lost."""
        generation = self._highest.get(task, 0)
        if generation:
            owner = self._owners.get((task, generation)) or self._owner((task, generation))
            if not owner:  # given back since the list was read, which is read again first
                del self._highest[task]
                return False
            if not self._members.has_left(owner):
                return False

        own, path = self._members.name, self._path(task, generation + 1)
        self._highest[task] = generation + 1
        if not create(path, own, lambda: self._owner((task, generation + 1)) == own):
            return False
        self._own[task] = generation + 1
        self._owners[task, generation + 1] = own
        return True

    def give_back(self, task: str) -> None:
        """End a lease of this machine: the task is done, or another machine may do it."""
        if (generation := self._own.pop(task, None)) is not None:
            self._path(task, generation).unlink(missing_ok=True)

    def give_all_back(self) -> None:
        """End all leases of this machine, as far as they can be found."""
        for task in list(self._own):
            with suppress(OSError):
                self.give_back(task)

    def _path(self, task: str, generation: int) -> Path:
        return self._folder / f"{task}.{generation}"
