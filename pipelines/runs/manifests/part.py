"""A part of a folder: a Parquet file, or a shard, which is a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from answermill.files.store import sha256


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a folder: its name in the folder, rows, bytes and SHA-256, for a shard the SHA-256 of its
    shard.json."""

    file: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, run: Path, file: str, rows: int = 0) -> Self:
        """A file of the run folder, as it is now."""
        return cls(file, rows, (run / file).stat().st_size, sha256(run / file))

    @property
    def unit(self) -> int:
        """The number of the unit that wrote it: the first number in its name."""
        number = re.search(r"\d+", self.file)
        return int(number[0]) if number else 0
