"""Arrays that take long to compute, kept block by block on the disk, so that a build that was killed goes on
within its shard.

A block's file is named by the digest of all that decides its content, and a block is always computed as a
whole. So kept and computed arrays are the same, and several builds of one shard may share the folder. A block
whose file is damaged is computed again: the file begins with the digest of the rest.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import replacing

Arrays = Mapping[str, npt.NDArray[Any]]
_DIGEST = 32  # bytes


class KeptBlocks:
    """The blocks of one build. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self.read = 0
        """Blocks that were there already."""

    def get(self, decisive: Sequence[str | int], compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of the block that `decisive` identifies: read if they are there, else computed and
        kept."""
        if self._folder is None:
            return compute()

        name = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]
        file = self._folder / f"{name}.block"
        self._files.append(file)
        arrays = _read(file)
        if arrays is not None:
            self.read += 1
            return arrays

        arrays = compute()
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        with replacing(file) as temporary:
            temporary.write_bytes(hashlib.sha256(content.getbuffer()).digest() + content.getbuffer())
        return arrays

    def delete(self) -> None:
        """Delete the blocks that this build has read or computed, after its shard is complete."""
        for file in self._files:
            file.unlink(missing_ok=True)


def _read(file: Path) -> Arrays | None:
    """A file's arrays; None if it is not there or damaged."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None

    digest, packed = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(packed).digest() != digest:
        return None
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        return dict(arrays)
