"""A shard's vectors in two bytes a number or one, from which candidates are scored; mapped from the disk, not
loaded.

`fp16` rounds each number. `int8` has a scale for each vector, whose largest number becomes ±127. What is read
is what was rounded: rounding it again gives the same bytes, so an index that takes vectors over from a run
that stored them in the same form equals one that encodes anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.vectors.exact_index import Vectors
from answermill.schemas.arrays import Rows

Form = Literal["fp16", "int8"]
NUMBERS, SCALES = "stored.npy", "scales.npy"
"""Files in a shard's folder of vectors: numbers [rows, d], and for int8 the scales [rows]."""


def pack(vectors: Vectors, form: Form) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """(numbers [n, d], scales [n] or None) of vectors [n, d].

    >>> numbers, scales = pack(np.array([[0.25, -1.0]], np.float32), "int8")
    >>> numbers.tolist(), unpack(numbers, scales).round(3).tolist()
    ([[32, -127]], [[0.25200000405311584, -1.0]])
    """
    if form == "fp16":
        with np.errstate(over="ignore"):  # infinity, which the writer refuses with its row
            return vectors.astype(np.float16), None

    # 16 bits of the scale times 7 of a number are exact in float32, so the largest number stays what it is.
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    mantissa, exponent = np.frexp(np.where(largest > 0, largest, 1.0) / np.float32(127))
    scales = np.ldexp(np.ceil(mantissa * 65536) / 65536, exponent).astype(np.float32)
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales


def unpack(numbers: npt.NDArray[Any], scales: npt.NDArray[np.float32] | None) -> Vectors:
    """The vectors [n, d] of what `pack` gave."""
    vectors = numbers.astype(np.float32)
    return vectors if scales is None else vectors * scales[:, None]


def rounded(vectors: Vectors, form: Form) -> Vectors:
    """Vectors [n, d] as they are read again once stored."""
    return unpack(*pack(vectors, form))


@dataclass(frozen=True)
class StoredVectors:
    """Stored vectors in a folder, mapped into memory."""

    _numbers: npt.NDArray[Any]
    _scales: npt.NDArray[np.float32] | None

    @classmethod
    def open(cls, folder: Path) -> StoredVectors:
        scales = folder / SCALES
        return cls(
            np.load(folder / NUMBERS, mmap_mode="r", allow_pickle=False),
            np.load(scales, mmap_mode="r", allow_pickle=False) if scales.is_file() else None,
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: Rows | slice) -> Vectors:
        """The vectors of these rows, float32 [rows, d]."""
        return unpack(self._numbers[rows], None if self._scales is None else self._scales[rows])
