"""Sets of ids that may not fit into memory: their 64-bit hashes, in files cut by the hash, of which one is in
memory at a time.

Two ids with one hash would be a false alarm, so who finds a repetition looks at the ids themselves before it
says so.
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
"""Hashes that wait until they are written."""


def files_for(ids: int) -> int:
    """The number of files that hold these ids: a power of 2."""
    return 1 << max(0, -(-ids // IN_FILE) - 1).bit_length()


class IdSet:
    """Ids, in `files` files below `folder`, which is created; sets that are compared have as many."""

    def __init__(self, folder: Path, files: int) -> None:
        folder.mkdir(parents=True)
        self._bits = files.bit_length() - 1
        self._paths = [folder / f"{n:05d}" for n in range(files)]
        self._waiting: list[Hashes] = []
        self._count = 0

    def add(self, ids: pa.Array) -> None:
        self._waiting.append(hashes(ids))
        self._count += len(ids)
        if self._count >= IN_MEMORY:
            self._flush()

    def repeated(self) -> Iterator[int]:
        """The hash of each id that is there more than once."""
        for each in self._each():
            yield from each[1:][each[1:] == each[:-1]].tolist()

    def absent_from(self, other: IdSet) -> Iterator[int]:
        """The hash of each id that the other does not have."""
        for mine, theirs in zip(self._each(), other._each(), strict=True):
            yield from np.setdiff1d(mine, theirs).tolist()

    def _each(self) -> Iterator[Hashes]:
        """The hashes of each file, sorted."""
        self._flush()
        for path in self._paths:
            yield np.sort(np.fromfile(path, np.uint64)) if path.is_file() else np.zeros(0, np.uint64)

    def _flush(self) -> None:
        if not self._waiting:
            return
        each = np.concatenate(self._waiting)
        self._waiting, self._count = [], 0
        places = each >> np.uint64(64 - self._bits) if self._bits else np.zeros_like(each)
        for n in np.unique(places).tolist():
            with self._paths[n].open("ab") as file:
                each[places == n].tofile(file)
