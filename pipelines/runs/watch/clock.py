"""RUN/.clock.json: when the steps of a run ended, and how long each took by the clock.

No manifest holds a time, so that the same job writes the same bytes. This file is for people who read a
report: a command that ends a step writes it, and a run without it is whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text

CLOCK = ".clock.json"


@dataclass(frozen=True, slots=True)
class StepTime:
    """The end of a step, in seconds since 1970, and its seconds within the command that ended it."""

    ended: float
    seconds: float


def step_times(run: Path) -> dict[str, StepTime]:
    """Step → its time, as far as it is known; nothing of a file that is missing or damaged."""
    try:
        return read_json(run / CLOCK, dict[str, StepTime])
    except (FileNotFoundError, WrongShape):
        return {}


def record(run: Path, step: str, seconds: float, clock: Callable[[], float] = time.time) -> None:
    """Write that a step has just ended; nothing if the file cannot be written."""
    times = step_times(run) | {step: StepTime(round(clock(), 3), round(seconds, 3))}
    with suppress(OSError):
        write_text(run / CLOCK, json.dumps({name: asdict(it) for name, it in times.items()}, indent=1) + "\n")
