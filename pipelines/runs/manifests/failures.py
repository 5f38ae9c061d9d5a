"""Units that failed for good: a file each in the step's work folder, with reason and traceback; and the
limits of failure.

The command writes the limits when the step begins; workers read them. A unit that failed is tried again by
the next run.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.files.store import remove_tree

REASON = "unit_failed"
"""The reason of the rejects that hold a failed unit's records."""
FAILED_UNITS = "failed_units"
"""Name of the count of failed units in manifests and in Beam's metrics."""
LONGEST_REASON = 500
"""Most characters of a reason."""
_LIMITS = "limits.json"


class HasLimits(Protocol):
    """Settings that have the limits."""

    @property
    def tries(self) -> int:
        """Number of tries of a unit in all."""

    @property
    def max_failed_units(self) -> int:
        """Most units of a step that may fail for good, where the step can go on without them."""

    @property
    def cache_gb(self) -> float:
        """Gigabytes of copies of objects that a machine keeps."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings that workers need."""

    tries: int = 1
    max_failed_units: int = 0
    cache_gb: float = 20.0

    @classmethod
    def read(cls, work: Path) -> Self:
        """Limits of a step that has begun; the defaults if it has none."""
        try:
            return read_json(work / _LIMITS, cls)
        except (FileNotFoundError, WrongShape):
            return cls()

    def write(self, work: Path) -> None:
        write_text(work / _LIMITS, json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class Failure:
    """A unit that failed for good, and why: the error's type and message, in one line."""

    unit: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failures:
    """The failed units of the step with this work folder."""

    work: Path

    @property
    def folder(self) -> Path:
        return self.work / "failed"

    def write(self, unit: int, error: BaseException) -> Failure:
        """Record the error of a unit that has failed; the record of an earlier attempt at it stands."""
        words = " ".join(str(error).split())
        failure = Failure(unit, f"{type(error).__name__}: {words}"[:LONGEST_REASON])
        text = "".join(traceback.format_exception(error))
        write_text(self.folder / f"unit-{unit:05d}.txt", f"{failure.reason}\n\n{text}", replace=False)
        return failure

    def read(self) -> dict[int, Failure]:
        """Unit number → its failure, in the order of the numbers; another attempt may have done a unit
        since."""
        failures = {}
        for path in sorted(self.folder.glob("unit-*.txt")):
            unit = int(path.stem.removeprefix("unit-"))
            failures[unit] = Failure(unit, path.read_text(encoding="utf-8").partition("\n")[0])
        return dict(sorted(failures.items()))

    def forget(self) -> None:
        """Delete them all, so that their units are tried again."""
        remove_tree(self.folder)
