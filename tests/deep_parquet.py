"""A Parquet file that Arrow does not write: a column within thousands of groups."""

from __future__ import annotations

from pathlib import Path

_GROUP = b"\x35\x02\x18\x01a\x15\x02\x00"
"""An entry of a schema in Thrift's compact protocol: optional, of the name 'a', with one child."""
_COLUMN = b"\x15\x02\x25\x02\x18\x01a\x00"
"""Of the type INT32, optional, of the name 'a'."""


def deep_parquet(path: Path, depth: int) -> Path:
    """Write a file without rows. Its only column is within `depth` groups, the schema's root included."""
    length, left = [], depth + 1
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7

    schema = b"\xfc" + bytes([*length, left]) + _GROUP * depth + _COLUMN
    footer = b"\x15\x04\x19" + schema + b"\x16\x00\x19\x0c\x00"  # version 2, no rows, no row groups
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path
