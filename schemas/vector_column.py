"""Columns of records that hold vectors, a row each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from answermill.schemas.arrays import Vectors

VECTOR = pa.list_(pa.field("element", pa.float32(), nullable=False))
"""Arrow type of the column."""


def to_column(vectors: Vectors) -> pa.ListArray:
    """Vectors [n, d] as n rows.

    >>> to_column(np.ones((1, 2), np.float32)).to_pylist()
    [[1.0, 1.0]]
    """
    number, dimension = vectors.shape
    ends = pa.array(np.arange(0, number * dimension + 1, dimension, dtype=np.int32))
    return pa.ListArray.from_arrays(ends, pa.array(vectors.ravel()), type=VECTOR)


def from_column(column: pa.ListArray) -> Vectors:
    """The rows of a column, at least one, as vectors [n, d]."""
    vectors: Vectors = column.flatten().to_numpy().reshape(len(column), -1)
    return vectors
