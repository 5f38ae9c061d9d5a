"""The last good run beside a run: what `since = "latest"` in a job file stands for.

It is chosen when the run begins, and written into RUN/.since.json: a run that goes on, or is looked at again,
takes over from the same one, whatever has become good meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.remote import as_path
from answermill.pipelines.errors import JobError
from answermill.pipelines.nights.night_folder import Nights
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.clock import step_times
from answermill.pipelines.runs.watch.live import Running
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.run import Run

CHOSEN = ".since.json"


@dataclass(frozen=True, slots=True)
class _Chosen:
    former: str | None
    """Name of the run's folder; None if there was no good run."""


@dataclass(slots=True)
class Latest:
    """The last good run in the folder that `run` is in. Call it for its path, which is chosen once."""

    run: Path
    is_asked: bool = field(default=False, init=False)
    """True once somebody wanted to know."""
    _former: str | None = field(default=None, init=False)

    def __call__(self) -> str | None:
        """Path of the good run; None if there is none."""
        if not self.is_asked:
            self.is_asked = True
            self._former = self._read_or_choose()
        return None if self._former is None else str(self._folder / self._former)

    @property
    def _folder(self) -> Path:
        return as_path(self.run).absolute().parent

    def _read_or_choose(self) -> str | None:
        try:
            return read_json(as_path(self.run) / CHOSEN, _Chosen).former
        except (FileNotFoundError, WrongShape):
            return last_good(self._folder, as_path(self.run).absolute().name)

    def keep(self) -> None:
        """Write the choice into the run, if there was one to make."""
        if self.is_asked:
            write_text(as_path(self.run) / CHOSEN, json.dumps({"former": self._former}) + "\n")

    def line(self) -> str:
        """The choice, for people."""
        if self._former is None:
            return f"since      no good run in {self._folder} yet, so nothing is taken over"
        return f"since      {self._former} is the last good run in {self._folder}"


def last_good(folder: Path, but: str) -> str | None:
    """Name of the last good run in a folder, other than `but`: the one that `good` leads to or, where no
    night has published one, the complete run that ended last. None if there is none."""
    if not folder.is_dir():
        return None
    nights = Nights(folder)
    if (good := nights.good()) is not None:
        return good if good != but else None
    complete = [
        (max((time.ended for time in step_times(path).values()), default=0.0), path.name)
        for path in folder.iterdir()
        if path.name != but and path.is_dir() and _is_good(nights, path)
    ]
    return max(complete)[1] if complete else None


def _is_good(nights: Nights, path: Path) -> bool:
    """True for a run whose steps are complete, at which no command works, and which no night has refused."""
    try:
        run, record = Run.open(path), nights.read(path.name)
    except JobError:
        return False
    if run.unreadable or not run.manifests or Running.read(path) is not None:
        return False
    if record is not None and record.code != 0:
        return False
    begun = [spec for spec in SPECS.values() if run.of(spec)]
    return all(map(run.is_complete, begun)) and not any(work_folders(path, name) for name in SPECS)
