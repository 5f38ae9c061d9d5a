"""Values that workers emit, kept on the disk until those of one key are read together.

Each process writes its own file, one MessagePack after the other. The command holds 24 bytes for each value:
file, start and length. The values of a key are read one at a time.

A value is made of numbers, texts, lists, dictionaries (no key is None), tuples, arrays, and named tuples. A
file can hold nothing else: reading one runs no code, even if others have written it.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgpack
import numpy as np

from answermill.pipelines.engine.protocol import Key

Written: TypeAlias = list[tuple[Key, int, int]]
"""(key, start of its value in the file, its length in bytes) of each pair that was written."""
Places: TypeAlias = "defaultdict[Key, array[int]]"
"""Key → for each of its values the number of a file, the start in it, and the length, one after the
other."""
_MARK = None
_TUPLE, _NAMED_TUPLE, _ARRAY = range(3)


def no_places() -> Places:
    return defaultdict(partial(array, "q"))


class ValueWriter:
    """The file of the process with this number in a folder; it is created when there is something to
    write."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._number = folder, number
        self._file: BinaryIO | None = None

    def write(self, pairs: Iterable[tuple[Key, Any]]) -> Written:
        """Write the values; they can be read when this returns."""
        written: Written = []
        for key, value in pairs:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / str(self._number)).open("wb")
            written.append((key, self._file.tell(), self._file.write(packed(value))))
        if self._file is not None:
            self._file.flush()
        return written

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class KeyValues:
    """The values of a key, which can be iterated any number of times."""

    def __init__(self, folder: Path, places: array[int]) -> None:
        self._folder, self._places = folder, places

    def __iter__(self) -> Iterator[Any]:
        files: dict[int, BinaryIO] = {}
        with ExitStack() as opened:
            flat = iter(self._places)
            for number, start, length in zip(flat, flat, flat, strict=True):
                if number not in files:
                    files[number] = opened.enter_context((self._folder / str(number)).open("rb"))
                files[number].seek(start)
                yield unpacked(files[number].read(length))


def packed(value: Any) -> bytes:
    """A value as MessagePack. Raises TypeError for one of another class, ValueError for one 500 levels deep.

    >>> unpacked(packed([(1, "a"), {"b": np.arange(2)}]))
    [(1, 'a'), {'b': array([0, 1])}]
    """
    return bytes(msgpack.packb(value, default=_marked, strict_types=True))


def unpacked(packed_value: bytes) -> Any:
    """The value; its arrays cannot be written to. Raises ValueError if it is too deep, or names a class that
    is no named tuple."""
    return msgpack.unpackb(packed_value, object_hook=_restored, strict_map_key=False)


def _marked(value: Any) -> Mapping[None, list[Any]]:
    """A value that MessagePack has no type for, as the only entry of a map, whose key no other map has.

    MessagePack's extension types would be read by nested calls, to any depth that a file demands.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return {_MARK: [_ARRAY, value.dtype.str, list(value.shape), value.tobytes()]}
    if type(value) is tuple:
        return {_MARK: [_TUPLE, *value]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {_MARK: [_NAMED_TUPLE, type(value).__module__, type(value).__qualname__, *value]}
    raise TypeError(f"{type(value).__name__} is no class of which an emitted value may be made")


def _restored(entries: dict[Any, Any]) -> Any:
    if _MARK not in entries:
        return entries
    kind, *fields = entries[_MARK]
    if kind == _TUPLE:
        return tuple(fields)
    if kind == _ARRAY:
        dtype, shape, numbers = fields
        return np.frombuffer(numbers, np.dtype(dtype)).reshape(shape)
    module, name, *values = fields
    return _named_tuple(module, name)(*values)


def _named_tuple(module: str, name: str) -> Any:
    """A class of a module that the work has imported, since it reads the value."""
    kind = getattr(sys.modules.get(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise ValueError(f"{module}.{name} is no named tuple")
    return kind
