"""Digests of the rows of a table, by which equal rows are found in tables of other orders. They take some
microseconds a row, since no value becomes an object of Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Leaf = tuple[memoryview, npt.NDArray[np.int64]]
"""The values of a column, or of a field inside, end to end; and the byte at which each row of the table
begins, with the end of the last one: [rows + 1]."""


def row_digests(rows: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """[rows, 2]: 16 bytes of the SHA-256 of each row; of no two rows the same, unless all their values are.

    Raises TypeError if a column has nulls.

    >>> batch = pa.record_batch({"name": ["ab", "a", "ab"], "numbers": [[1, 2], [], [1, 2]]})
    >>> first, second, third = row_digests(batch).tolist()
    >>> first == third, first == second
    (True, False)
    """
    leaves = [leaf for column in rows.columns for leaf in _leaves(column)]
    digests = [hashlib.sha256() for _ in range(rows.num_rows)]
    for values, edges in leaves:
        start, *ends = edges.tolist()
        for digest, end in zip(digests, ends, strict=True):
            digest.update(values[start:end])
            start = end
    return np.frombuffer(b"".join(digest.digest()[:16] for digest in digests), np.uint64).reshape(-1, 2)


def _leaves(column: pa.Array) -> Iterator[Leaf]:
    """The leaves of a column. Those of texts and lists include their lengths, so that 'ab', 'c' is not 'a',
    'bc'."""
    if column.null_count:
        raise TypeError(f"a column of {column.type} has nulls")

    if pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _leaves(field)
    elif pa.types.is_list(column.type):
        offsets = column.offsets.to_numpy().astype(np.int64)
        yield _fixed(np.diff(offsets))
        for values, edges in _leaves(column.flatten()):
            yield values, edges[offsets - offsets[0]]
    elif pa.types.is_string(column.type):
        _, buffer, values = column.buffers()
        offsets = np.frombuffer(buffer or bytes(4), np.int32)[column.offset :][: len(column) + 1]
        yield _fixed(np.diff(offsets))
        yield memoryview(values or b""), offsets.astype(np.int64)
    else:
        yield _fixed(column.to_numpy(zero_copy_only=False))


def _fixed(values: npt.NDArray[Any]) -> Leaf:
    """The leaf of values of one size each."""
    edges = np.arange(len(values) + 1, dtype=np.int64) * values.itemsize
    return memoryview(values.tobytes()), edges
