"""The folder of all nights: a run for each night, the name of the last good one, and those that stay.

RUNS/NAME is the run of a night, and RUNS/NAME/night.json says that it is one. RUNS/good leads to the last
good run: a link to its folder or, in an object store and on disks without links, a file that holds its name.
"""

from __future__ import annotations

import errno
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.remote import as_path
from answermill.files.store import remove_tree, store_of
from answermill.pipelines.errors import BAD_DATA, INTERRUPTED, OUTPUT_EXISTS, TERMINATED, USAGE, JobError
from answermill.pipelines.runs.watch.live import Running

NIGHT_FILE = "night.json"
GOOD = "good"
_NAME = re.compile(r"[A-Za-z0-9][\w.:+-]*")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class NightRecord:
    """What night.json holds: the night, and how it ended. Times are seconds since 1970."""

    night: str
    job: str
    began: float
    former: str | None
    """The good run when the night began, which it is compared with."""
    stage: str = ""
    """The stage at work, or at which the night ended."""
    code: int | None = None
    """The exit code; None while the night is at work, or after a kill."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures of the gate."""

    @property
    def is_open(self) -> bool:
        """True if the night is at work, or was stopped or killed: the same command goes on with it."""
        return self.code in (None, INTERRUPTED, TERMINATED)


@dataclass(frozen=True, slots=True)
class Nights:
    """The nights in a folder, which may be a URL of an object store."""

    folder: Path

    def run(self, name: str) -> Path:
        """The run of a night. Raises JobError (2) if the name is none for a folder."""
        if not _NAME.fullmatch(name) or name == GOOD:
            raise JobError(
                f"--night {name}: give a name of letters, digits, '-' and '_', as 2026-01-31", USAGE
            )
        return self.folder / name

    def good(self) -> str | None:
        """Name of the last good run; None before the first. Raises JobError (73) if `good` is something
        else."""
        good = self.folder / GOOD
        if good.is_symlink():
            return good.readlink().name
        if good.is_dir():
            raise JobError(f"{good} is a folder, and no link to a night's run; move it away", OUTPUT_EXISTS)
        return good.read_text(encoding="utf-8").strip() if good.is_file() else None

    def publish(self, name: str) -> None:
        """Make a run the good one, at once: a reader sees the former one or this one."""
        good = self.folder / GOOD
        if not store_of(good).is_local or not _linked(good, name):
            write_text(good, name + "\n")

    def begin(self, name: str, job: Path) -> NightRecord:
        """The record of a night, which is written if the night is new. Raises JobError (65) if it is
        damaged."""
        record = self.read(name) or NightRecord(name, str(job), time.time(), self.good())
        self.write(record)
        return record

    def write(self, record: NightRecord) -> None:
        write_text(self.run(record.night) / NIGHT_FILE, json.dumps(asdict(record), indent=1) + "\n")

    def read(self, name: str) -> NightRecord | None:
        """The record of a night; None if there is none. Raises JobError (65) if it is damaged."""
        file = self.folder / name / NIGHT_FILE
        try:
            return read_json(file, NightRecord)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except WrongShape as e:
            raise JobError(f"{e}; delete {file.parent}, or that file if its run is to stay", BAD_DATA) from e

    def surplus(self, keep: int, present: str) -> Sequence[str]:
        """The nights that need not stay, the oldest first: not among the newest `keep`, neither `present` nor
        the good one, and not at work."""
        # GOOD is a link, by which the good run is seen a second time.
        names = {file.parent.name for file in self.folder.glob(f"*/{NIGHT_FILE}")} - {GOOD}
        records = {name: record for name in names if (record := self.read(name)) is not None}
        by_age = sorted(records, key=lambda name: (records[name].began, name))
        staying = {*by_age[max(0, len(by_age) - keep) :], present, self.good()}
        return [name for name in by_age if name not in staying and not self._is_at_work(name)]

    def _is_at_work(self, name: str) -> bool:
        running = Running.read(self.folder / name)
        return running is not None and not running.is_gone(time.time())

    def remove(self, name: str) -> None:
        """Remove a night's run, night.json last: after a kill it is still known as a night."""
        run = self.folder / name
        for path in sorted(run.iterdir()):
            if path.name != NIGHT_FILE:
                remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (run / NIGHT_FILE).unlink()
        remove_tree(run)


def night_date(name: str, began: float) -> date:
    """The date of a night: the one that its name begins with, else that of its begin, by UTC.

    >>> night_date("2026-01-31b", 0.0), night_date("first", 0.0)
    (datetime.date(2026, 1, 31), datetime.date(1970, 1, 1))
    """
    try:
        return date.fromisoformat(name[:10])
    except ValueError:
        return datetime.fromtimestamp(began, UTC).date()


def is_open_night(run: Path) -> bool:
    """True for the run of a night that has not come to its end. Raises JobError (65) if its record is
    damaged."""
    run = as_path(run).absolute()
    record = Nights(run.parent).read(run.name)
    return record is not None and record.is_open


def _linked(good: Path, name: str) -> bool:
    """Let the link lead to the folder of this name beside it; False where a disk has no links."""
    new = good.with_name(f".{GOOD}.tmp")
    new.unlink(missing_ok=True)
    try:
        new.symlink_to(name, target_is_directory=True)
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        return False
    new.replace(good)
    return True
