"""Opening of a user's Parquet files, with an error for a schema that is nested too deeply; and which of
Arrow's errors are of a file's content.

Arrow follows nested columns by recursion, as deep as the file states, and the process ends when its stack is
full. So the list of columns is read here first. It is a part of the footer, in Thrift's compact protocol, and
each entry of it states how many of the next ones are within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.store import read_range

DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors that Arrow raises about a damaged file; the last about a column's name. See
`raise_unless_damage`."""
DEEPEST = 100
"""Largest depth of nested groups in a schema. A list or a map counts two."""

_MAGIC = b"PAR1"
_SCHEMA, _CHILDREN = 2, 5
"""Numbers of the fields that are read of the footer, and of an entry of its schema; others are skipped."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = (*range(1, 10), 12)
"""Kinds of Thrift's values. No footer has sets and maps, the kinds 10 and 11."""


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open the file; its pages are compared with their checksums when they are read.

    Raises pa.ArrowException or OSError, as Arrow does, if it is no Parquet or damaged, or if its schema is
    nested too deeply.
    """
    check_depth(path)
    return pq.ParquetFile(path, page_checksum_verification=True)


def raise_unless_damage(error: Exception) -> None:
    """Raise a disk error again; Arrow's errors about a file's content have no error number."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def check_depth(path: Path) -> None:
    """Check the footer of a file, here or in a store. Arrow finds out whether the file is Parquet at all.

    Raises pa.ArrowInvalid if the footer is damaged, or the schema nested too deeply.
    """
    size = path.stat().st_size
    end = read_range(path, max(0, size - 8), size)
    if len(end) < 8 or end[4:] != _MAGIC:
        return
    footer = read_range(path, max(0, size - 8 - int.from_bytes(end[:4], "little")), size - 8)

    try:
        for depth in _depths(_Footer(footer)):
            if depth > DEEPEST:
                raise pa.ArrowInvalid(f"its columns are nested more than {DEEPEST} deep")
    except IndexError as e:
        raise pa.ArrowInvalid("its footer is damaged") from e


def _depths(footer: _Footer) -> Iterator[int]:
    """Number of groups around each entry of the schema, a group itself included."""
    remaining: list[int] = []  # entries left in each open group
    for children in footer.children():
        while remaining and not remaining[-1]:
            remaining.pop()
        if remaining:
            remaining[-1] -= 1
        if children > 0:
            remaining.append(children)
        yield len(remaining)


class _Footer:
    """A footer, read from its start. Raises IndexError if it ends too soon or has a kind that no footer
    has."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def children(self) -> Iterator[int]:
        """Number of entries directly within each entry of the schema: 0 in a column."""
        for field, kind in self._fields():
            if (field, kind) == (_SCHEMA, _LIST):
                length, inner = self._list()
                yield from (self._entry(inner) for _ in range(length))
                return
            self._skip(kind)

    def _entry(self, kind: int) -> int:
        if kind != _STRUCT:
            raise IndexError
        children = 0
        for field, inner in self._fields():
            if (field, inner) == (_CHILDREN, _I32):
                children = self._signed()
            else:
                self._skip(inner)
        return children

    def _fields(self) -> Iterator[tuple[int, int]]:
        """(number, kind) of each field of a struct. The caller reads the value before the next field."""
        field = 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            field = field + step if step else self._signed()
            yield field, kind

    def _list(self) -> tuple[int, int]:
        """(length, kind of the elements) of a list."""
        length, kind = divmod(self._byte(), 16)
        return (self._number() if length == 15 else length), kind

    def _skip(self, kind: int, within: int = 0) -> None:
        """Skip a value. Like Thrift, it refuses values within more than 64 others."""
        if kind in (_I16, _I32, _I64):
            self._number()
        elif kind == _BINARY:
            length = self._number()
            self._at += length
        elif kind in (_BYTE, _DOUBLE):
            self._at += 1 if kind == _BYTE else 8
        elif kind == _STRUCT and within < 64:
            for _, inner in self._fields():
                self._skip(inner, within + 1)
        elif kind == _LIST and within < 64:
            length, inner = self._list()
            for _ in range(length):
                self._skip(_BYTE if inner in (_TRUE, _FALSE) else inner, within + 1)
        elif kind not in (_TRUE, _FALSE):  # these are their own values
            raise IndexError

        if self._at > len(self._content):
            raise IndexError

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _number(self) -> int:
        """Read a number of seven bits a byte, the lowest first; the eighth bit marks that more follow."""
        number = shift = 0
        while (byte := self._byte()) >= 128:
            number |= (byte - 128) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        """Read a signed number: 0, -1, 1, -2, … are written as 0, 1, 2, 3, …"""
        number = self._number()
        return number >> 1 ^ -(number & 1)
