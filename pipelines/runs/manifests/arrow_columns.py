"""Data of a step that grow with its units, as Arrow tables: they take a fraction of the memory of objects,
and are read when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from answermill.pipelines.runs.manifests.part import Part

_CHUNK = 4_096
PARTS = pa.schema(
    [("file", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("sha256", pa.string())]
)
NAMES = pa.schema([("name", pa.string()), ("value", pa.string())])


class Growing:
    """A table that grows row by row."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self._batches = schema, list[pa.RecordBatch]()
        self._waiting: list[tuple[Any, ...]] = []

    def append(self, *values: Any) -> None:
        self._waiting.append(values)
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def table(self) -> pa.Table:
        """All rows so far."""
        self._flush()
        return pa.Table.from_batches(self._batches, self._schema).combine_chunks()

    def _flush(self) -> None:
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._waiting = []


class _Lazy:
    """A table that is read when it is used, if it is not in memory."""

    def __init__(self, read: Callable[[], pa.Table]) -> None:
        self._read = read

    @cached_property
    def table(self) -> pa.Table:
        return self._read()

    def __len__(self) -> int:
        return len(self.table)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.table.to_batches(_CHUNK):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class Parts(_Lazy, Sequence[Part]):
    """The parts of a folder."""

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Parts:
        rows = Growing(PARTS)
        for part in parts:
            rows.append(part.file, part.rows, part.bytes, part.sha256)
        return cls(rows.table)

    def __iter__(self) -> Iterator[Part]:
        return (Part(*row) for row in self._rows())

    @overload
    def __getitem__(self, number: int) -> Part: ...

    @overload
    def __getitem__(self, number: slice) -> Parts: ...

    def __getitem__(self, number: int | slice) -> Part | Parts:
        if isinstance(number, slice):
            rows = self.table.take(pa.array(range(*number.indices(len(self))), pa.int64()))
            return Parts(lambda: rows)
        if not -len(self) <= number < len(self):
            raise IndexError(f"part {number} of {len(self)}")
        return Part(*(column[number].as_py() for column in self.table.columns))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


class Named(_Lazy, Mapping[str, str]):
    """Name → value: inputs, digests, and a unit's counts as JSON."""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Named:
        rows = Growing(NAMES)
        for name, value in values.items():
            rows.append(name, value)
        return cls(rows.table)

    def __iter__(self) -> Iterator[str]:
        for batch in self.table.to_batches(_CHUNK):
            yield from batch.column(0).to_pylist()

    def __getitem__(self, name: str) -> str:
        value: str = self.table.column(1)[self._row_of[name]].as_py()
        return value

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self)}
