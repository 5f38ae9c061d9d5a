"""Parquet files of a user, opened: a schema that is nested too deeply is an error.

Arrow follows nested columns by calls within calls, as deep as the file says, and the process ends where its
stack does. So the list of columns is read here first. It is a part of the footer, in Thrift's compact
protocol, and each entry of it says how many of the next ones are within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.store import read_range

DEEPEST = 100
"""Groups within groups that a schema may have. A list or a map is two of them."""

_MAGIC = b"PAR1"
_SCHEMA, _CHILDREN = 2, 5
"""The fields of the footer, and of an entry of its schema, that are read; others are passed over."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = (*range(1, 10), 12)
"""Kinds of Thrift's values. Sets and maps, the kinds 10 and 11, are in no footer."""


def open_parquet(path: Path) -> pq.ParquetFile:
    """The file; what is read from it is compared with the checksums of its pages.

    Raises pa.ArrowException or OSError, as Arrow does, if it is no Parquet or damaged, or if its schema is
    nested too deeply.
    """
    check_depth(path)
    return pq.ParquetFile(path, page_checksum_verification=True)


def check_depth(path: Path) -> None:
    """Look at the footer of a file, here or in a store; whether the file is Parquet at all, Arrow says.

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
    """The number of groups that each entry of the schema is within, a group itself included."""
    still_due: list[int] = []  # entries, of each open group
    for children in footer.children():
        while still_due and not still_due[-1]:
            still_due.pop()
        if still_due:
            still_due[-1] -= 1
        if children > 0:
            still_due.append(children)
        yield len(still_due)


class _Footer:
    """A footer, read from its start. Raises IndexError where it ends too soon or has what no footer has."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def children(self) -> Iterator[int]:
        """How many entries are directly within each entry of the schema: 0 in a column."""
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
        """(number, kind) of each field of a struct; its value is read before the next field is asked for."""
        field = 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            field = field + step if step else self._signed()
            yield field, kind

    def _list(self) -> tuple[int, int]:
        """(length, kind of the elements)."""
        length, kind = divmod(self._byte(), 16)
        return (self._number() if length == 15 else length), kind

    def _skip(self, kind: int, within: int = 0) -> None:
        """Pass a value over; Thrift too refuses values within more than 64 others."""
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
        """Seven bits a byte, the lowest first; the eighth says that there are more."""
        number = shift = 0
        while (byte := self._byte()) >= 128:
            number |= (byte - 128) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        """0, -1, 1, -2, … are written as 0, 1, 2, 3, …"""
        number = self._number()
        return number >> 1 ^ -(number & 1)
