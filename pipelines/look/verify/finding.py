"""What is wrong in a run: where, what, whose output it is, and what kind of remedy there is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Remedy(Enum):
    """What makes it right; the value is what people read."""

    AGAIN = "is removed and made again"
    """The file: by its unit where units stand alone, else by its step."""
    REDO = "all of its output is removed and made again, and what was made of it"
    STRAY = "is removed: no manifest names it"
    REWRITE = "is written again by the next run"
    PEOPLE = "is left as it is: people may have worked on it"


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` is below the run folder; `step` wrote it, or is '' where none did."""

    path: str
    what: str
    step: str
    remedy: Remedy

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


CHANGED = "was changed since it was written (SHA-256)"
