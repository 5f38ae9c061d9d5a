"""Sets of ids that may not fit into memory: 64-bit hashes, in files cut by the hash and read one at a time.

Two ids with one hash would be a false alarm, so a caller that finds a repetition compares the ids themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from answermill.indexing.labels.hash_join import hashes

Hashes = NDArray[np.uint64]
IN_FILE = 1 << 22
"""Hashes in a file: 32 MiB."""
IN_MEMORY = 1 << 16
"""Hashes that are held before they are written."""


def files_for(ids: int) -> int:
    """Number of files for this number of ids: a power of 2."""
    return 1 << max(0, -(-ids // IN_FILE) - 1).bit_length()


class IdSet:
    """Set of ids, in `files` files below `folder`, which is created. Compared sets have equal numbers of
    files."""

    def __init__(self, folder: Path, files: int) -> None:
        folder.mkdir(parents=True)
        self._bits = files.bit_length() - 1
        self._paths = [folder / f"{n:05d}" for n in range(files)]
        self._unwritten: list[Hashes] = []
        self._count = 0

    def add(self, ids: pa.Array) -> None:
        self._unwritten.append(hashes(ids))
        self._count += len(ids)
        if self._count >= IN_MEMORY:
            self._flush()

    def repeated(self) -> Iterator[int]:
        """Hashes of ids that were added more than once."""
        for hashed in self._sorted():
            yield from hashed[1:][hashed[1:] == hashed[:-1]].tolist()

    def absent_from(self, other: IdSet) -> Iterator[int]:
        """Hashes of ids that the other set does not have."""
        for hashed, other_hashed in zip(self._sorted(), other._sorted(), strict=True):
            yield from np.setdiff1d(hashed, other_hashed).tolist()

    def _sorted(self) -> Iterator[Hashes]:
        """Sorted hashes of each file."""
        self._flush()
        for path in self._paths:
            yield np.sort(np.fromfile(path, np.uint64)) if path.is_file() else np.zeros(0, np.uint64)

    def _flush(self) -> None:
        if not self._unwritten:
            return
        hashed = np.concatenate(self._unwritten)
        self._unwritten, self._count = [], 0

        # The first bits of a hash are the number of its file.
        files = hashed >> np.uint64(64 - self._bits) if self._bits else np.zeros_like(hashed)
        for n in np.unique(files).tolist():
            with self._paths[n].open("ab") as file:
                hashed[files == n].tofile(file)
