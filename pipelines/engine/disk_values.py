"""Values that workers emit, on the disk until those of one key are asked for together.

Each process writes its own file, one pickle after the other. The command holds 16 bytes for each value, the place where it
begins; the values of a key are read one at a time.
"""

from __future__ import annotations

import pickle
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from answermill.pipelines.engine.protocol import Key

Written: TypeAlias = list[tuple[Key, int]]
"""(key, where its value begins in the file) of each pair that was written."""
Places: TypeAlias = "defaultdict[Key, array[int]]"
"""Key → for each of its values the number of a file, and where the value begins in it, one after the other."""


def no_places() -> Places:
    return defaultdict(partial(array, "q"))


class ValueWriter:
    """The file of the process with this number in a folder; it is created when there is something to write."""

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
            written.append((key, self._file.tell()))
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        if self._file is not None:
            self._file.flush()
        return written

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Values:
    """The values of a key, as often as they are iterated."""

    def __init__(self, folder: Path, places: array[int]) -> None:
        self._folder, self._places = folder, places

    def __iter__(self) -> Iterator[Any]:
        files: dict[int, BinaryIO] = {}
        with ExitStack() as opened:
            flat = iter(self._places)
            for number, start in zip(flat, flat, strict=True):
                if number not in files:
                    files[number] = opened.enter_context((self._folder / str(number)).open("rb"))
                files[number].seek(start)
                yield pickle.load(files[number])
