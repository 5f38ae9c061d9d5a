"""Terms in which machines lead a run, one after the other: each begins with a file `leader-N.json`, which one
machine can create, and may end with `ended-N.json`, the error that ends the run for all machines."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answermill.pipelines.engine.machines.members import create, read_shape
from answermill.pipelines.errors import OUTPUT_EXISTS, UNAVAILABLE, JobError
from answermill.pipelines.runs.manifests.run_folder import differences, shortened
from answermill.pipelines.runs.watch.progress import print_line


@dataclass(frozen=True, slots=True)
class Leader:
    """The machine that leads in a term, and what it runs."""

    machine: str
    run: str
    revision: str
    settings: dict[str, Any]
    """The job's, without those that each machine may choose."""

    def refuse_other(self, own: Leader, who: str) -> None:
        """Refuse a machine that would lead another job than this one, or by other code. `who`: this one, for
        people. Raises JobError: 73 or 69."""
        if self.revision != own.revision:
            raise JobError(
                f"{own.run}: {who} leads with revision {self.revision} of answermill, this machine has "
                f"{own.revision}: install the same package on all machines, and type the same command; "
                "`answermill doctor` shows what a machine has",
                UNAVAILABLE,
            )
        if clauses := list(differences(self.settings, own.settings, "")):
            raise JobError(
                f"{own.run}: {who} leads another job there: settings {shortened(clauses)}; "
                "give all machines the same job and the same --set, or give another --out",
                OUTPUT_EXISTS,
            )


@dataclass(frozen=True, slots=True)
class _End:
    """The error that ended a term for all machines."""

    message: str
    code: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a run, by their files in `folder`."""

    folder: Path

    def leader(self, term: int) -> Leader | None:
        """Who leads in a term; None if it has not begun."""
        with suppress(FileNotFoundError):
            leader: Leader = read_shape(self._file("leader", term), Leader)
            return leader
        return None

    def begin(self, term: int, own: Leader) -> bool:
        """Begin a term; False if another machine was faster."""
        if not create(self._file("leader", term), asdict(own), lambda: self.leader(term) == own):
            return False
        if term > 1:
            print_line("leads now: the machine that led has ended, or gives no sign")
        return True

    def end(self, term: int, error: JobError) -> None:
        """End the run for all machines."""
        create(self._file("ended", term), asdict(_End(str(error), error.code)), lambda: True)

    def raise_end(self, term: int) -> None:
        """Raises the JobError that ended the run in this term, if one did."""
        with suppress(FileNotFoundError):
            end: _End = read_shape(self._file("ended", term), _End)
            raise JobError(end.message, end.code)

    def _file(self, kind: str, term: int) -> Path:
        return self.folder / f"{kind}-{term:05d}.json"
