"""Findings of a verification: the place, the fault, the step that wrote it, and the kind of remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Remedy(Enum):
    """Remedy of a finding; the value is the clause for people."""

    AGAIN = "is removed and made again"
    """The file is: by its unit if units stand alone, else by its step."""
    REDO = "all of its output is removed and made again, and what was made of it"
    STRAY = "is removed: no manifest names it"
    REWRITE = "is written again by the next run"
    PEOPLE = "is left as it is: people may have worked on it"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault. `path` is below the run folder; `step` wrote it, or is '' if none did."""

    path: str
    what: str
    step: str
    remedy: Remedy

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


CHANGED = "was changed since it was written (SHA-256)"
