"""Units that failed for good: a file each in the step's work folder, with reason and traceback; and how many
may fail.

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
"""The reason of the rejects that hold what a failed unit held."""
FAILED_UNITS = "failed_units"
"""The name of their count in manifests and in Beam's metrics."""
LONGEST_REASON = 500
"""Characters."""
_LIMITS = "limits.json"


class HasLimits(Protocol):
    """Settings that have them."""

    @property
    def tries(self) -> int:
        """How often a unit is tried in all."""

    @property
    def max_failed_units(self) -> int:
        """How many units of a step may fail for good, where the step can go on without them."""

    @property
    def cache_gb(self) -> float:
        """Gigabytes of copies of objects that a machine keeps."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What workers need to know of the settings."""

    tries: int = 1
    max_failed_units: int = 0
    cache_gb: float = 20.0

    @classmethod
    def read(cls, work: Path) -> Self:
        """Those of a step that has begun; the defaults if it has none."""
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
        """Keep why a unit has failed; what another attempt at it has written stands."""
        words = " ".join(str(error).split())
        failure = Failure(unit, f"{type(error).__name__}: {words}"[:LONGEST_REASON])
        text = "".join(traceback.format_exception(error))
        write_text(self.folder / f"unit-{unit:05d}.txt", f"{failure.reason}\n\n{text}", replace=False)
        return failure

    def read(self) -> dict[int, Failure]:
        """Unit number → its failure, in the order of their numbers; a unit may have been done since, by
        another attempt."""
        failures = {}
        for path in sorted(self.folder.glob("unit-*.txt")):
            unit = int(path.stem.removeprefix("unit-"))
            failures[unit] = Failure(unit, path.read_text(encoding="utf-8").partition("\n")[0])
        return dict(sorted(failures.items()))

    def forget(self) -> None:
        """Delete them all, so that their units are tried again."""
        remove_tree(self.folder)
