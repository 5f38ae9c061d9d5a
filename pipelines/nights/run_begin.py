"""What a run began with: the date that `{date}` in its job file stands for, and the last good run beside it,
for `since = "latest"`.

Both are chosen when the run begins, and written into RUN/.begun.json: a run that goes on, or is looked at
again, has the same ones, whatever the date is by then and whatever has become good meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.remote import as_path
from answermill.pipelines.config.toml_file import utc_today
from answermill.pipelines.errors import JobError
from answermill.pipelines.nights.night_folder import Nights
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.clock import step_times
from answermill.pipelines.runs.watch.live import Running
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.run import Run

BEGUN = ".begun.json"


@dataclass(frozen=True, slots=True)
class _Begun:
    """What .begun.json holds."""

    day: str | None = None
    """The date, as 2026-01-31; None if the job has no `{date}`."""
    has_chosen: bool = False
    """True if the job says `since = "latest"`."""
    former: str | None = None
    """Name of the good run's folder; None if there was no good run."""


@dataclass(slots=True)
class RunBegin:
    """The date of `run`, and the last good run in the folder that it is in. Each is chosen once, when it is
    asked for."""

    run: Path
    today: date | None = None
    """The date that the command has; None = the one that the run began with, or today's, by UTC."""
    _begun: _Begun | None = field(default=None, init=False)

    def day(self) -> date:
        """The date that `{date}` stands for."""
        begun = self._read()
        day = self.today or (date.fromisoformat(begun.day) if begun.day else utc_today())
        self._begun = replace(begun, day=day.isoformat())
        return day

    def latest(self) -> str | None:
        """Path of the last good run; None if there is none."""
        begun = self._read()
        if not begun.has_chosen:
            begun = replace(begun, has_chosen=True, former=last_good(self._folder, self._path.name))
            self._begun = begun
        return None if begun.former is None else str(self._folder / begun.former)

    @property
    def _path(self) -> Path:
        return as_path(self.run).absolute()

    @property
    def _folder(self) -> Path:
        return self._path.parent

    def _read(self) -> _Begun:
        if self._begun is None:
            try:
                self._begun = read_json(self._path / BEGUN, _Begun)
            except (FileNotFoundError, WrongShape):
                self._begun = _Begun()
        return self._begun

    def keep(self) -> None:
        """Write into the run what was asked for, if anything was."""
        if self._begun not in (None, _Begun()):
            write_text(self._path / BEGUN, json.dumps(asdict(self._read())) + "\n")

    def lines(self) -> Iterator[str]:
        """What was chosen, for people: a date other than today's, and the good run."""
        begun = self._begun or _Begun()
        if self.today is None and begun.day not in (None, utc_today().isoformat()):
            yield f"date       {begun.day}, with which the run began"
        if begun.has_chosen and begun.former is None:
            yield f"since      no good run in {self._folder} yet, so nothing is taken over"
        if begun.former is not None:
            yield f"since      {begun.former} is the last good run in {self._folder}"


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
