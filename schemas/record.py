"""Records: one declaration per column gives a frozen dataclass, its Arrow schema and the data dictionary.

    @record
    class Sentence(Record):
        "A sentence of one document."
        sentence_id: str = column(pa.string(), "'<doc_id>@<start>'")

A field whose annotation admits None is nullable in Arrow, every other one is not. The meaning of a column is
stored in the Parquet file, as the field's metadata `description`; `describe()` gives the same as a table.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform, get_type_hints

import pyarrow as pa

R = TypeVar("R", bound="Record")

_REQUIRED: Any = dataclasses.MISSING


def column(
    arrow_type: pa.DataType, description: str, default: Any = _REQUIRED, *, distinct: bool = False
) -> Any:
    """A plain column: its Arrow type and its meaning.

    `distinct`: nearly every row has another value, so that a file has no dictionary of them: it would take
    time and save nothing."""
    metadata = {"arrow": arrow_type, "description": description, "distinct": distinct}
    return dataclasses.field(default=default, metadata=metadata)


def one(nested: type[Record], description: str) -> Any:
    """A column that holds one nested record (a struct)."""
    return dataclasses.field(metadata={"nested": nested, "many": False, "description": description})


def many(nested: type[Record], description: str, default: Any = _REQUIRED) -> Any:
    """A column that holds a tuple of nested records (a list of structs)."""
    metadata = {"nested": nested, "many": True, "description": description}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(column, one, many))
def record(cls: type[R]) -> type[R]:
    """Make a frozen, slotted dataclass of the class and derive its Arrow schema from the columns."""
    result: Any = dataclasses.dataclass(frozen=True, slots=True)(cls)
    result._fields = tuple(
        (f.name, f.metadata.get("nested"), f.metadata.get("many", False)) for f in dataclasses.fields(result)
    )
    result._optional = frozenset(
        f.name for f in dataclasses.fields(result) if f.default is not dataclasses.MISSING
    )
    result._arrow = _arrow_schema(result)
    return cast(type[R], result)


class Record:
    """Base of all records. Rows are instances; batches are Arrow."""

    __slots__ = ()
    _fields: ClassVar[tuple[tuple[str, type[Record] | None, bool], ...]]
    _optional: ClassVar[frozenset[str]]
    """Columns with a default, for files that lack them."""
    _arrow: ClassVar[pa.Schema]

    @classmethod
    def schema(cls) -> pa.Schema:
        """Arrow schema; field metadata hold the column descriptions, schema metadata the record's name
        and fingerprint."""
        return cls._arrow

    @classmethod
    def fingerprint(cls) -> str:
        """16 hex digits that change if a column's name, type, nullability or place does (not with its
        description).

        It uses our own names of types, so that it is the same under every release of pyarrow.
        """
        columns = json.dumps([_column_name(field) for field in cls._arrow])
        return hashlib.sha256(columns.encode()).hexdigest()[:16]

    @classmethod
    def table(cls, rows: Sequence[Self]) -> pa.Table:
        """Rows as an Arrow table with this record's schema."""
        return pa.Table.from_arrays(cls._columns(rows), schema=cls._arrow)

    @classmethod
    def _columns(cls, rows: Sequence[Self]) -> list[pa.Array]:
        """An array for each column: a nested record is made of arrays as well, not of a dict for each row."""
        columns = []
        for (name, nested, is_many), field in zip(cls._fields, cls._arrow, strict=True):
            values = list(map(attrgetter(name), rows))
            if nested is None:
                columns.append(pa.array(values, type=field.type))
                continue
            inner = list(chain.from_iterable(values)) if is_many else values
            structs = pa.StructArray.from_arrays(nested._columns(inner), fields=list(nested._arrow))
            if is_many:
                ends = pa.array(accumulate(map(len, values), initial=0), pa.int32())
                structs = pa.ListArray.from_arrays(ends, structs, type=field.type)
            columns.append(structs)
        return columns

    @classmethod
    def rows(cls, data: pa.Table | pa.RecordBatch) -> list[Self]:
        """Rows of an Arrow table or batch that has at least this record's columns."""
        return [cls.from_dict(row) for row in data.select([name for name, _, _ in cls._fields]).to_pylist()]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Record from the result of its `to_dict`; an optional column may be absent."""
        arguments = {}
        for name, nested, is_many in cls._fields:
            if name in cls._optional and name not in values:
                continue
            value = values[name]
            if nested is not None:
                value = tuple(map(nested.from_dict, value)) if is_many else nested.from_dict(value)
            elif isinstance(value, list):
                value = tuple(value)
            arguments[name] = value
        return cls(**arguments)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for Arrow and JSON, with nested records as dicts."""
        plain: dict[str, Any] = {}
        for name, nested, is_many in self._fields:
            value = getattr(self, name)
            if nested is not None:
                value = [n.to_dict() for n in value] if is_many else value.to_dict()
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def dictionary_columns(cls, repeats: bool = False) -> list[str]:
        """The columns whose values repeat, of each of which a Parquet file has a dictionary: their paths in
        the file, such as 'sentences.list.element.start'.

        `repeats`: whole records do, as the one in a column of another record does."""
        paths = []
        for f, field in zip(dataclasses.fields(cls), cls._arrow, strict=True):  # type: ignore[arg-type]
            path = f"{f.name}.list.element" if pa.types.is_list(field.type) else f.name
            if nested := f.metadata.get("nested"):
                inner_columns = nested.dictionary_columns(repeats or not f.metadata["many"])
                paths += [f"{path}.{inner}" for inner in inner_columns]
            elif repeats or not f.metadata["distinct"]:
                paths.append(path)
        return paths

    @classmethod
    def describe(cls) -> list[tuple[str, str, str]]:
        """Data dictionary: (column, Arrow type, meaning), with nested columns as 'outer.inner'."""
        rows = []
        for (name, nested, _), field in zip(cls._fields, cls._arrow, strict=True):
            kind = (
                ("list of " if pa.types.is_list(field.type) else "") + nested.__name__
                if nested
                else str(field.type)
            )
            rows.append(
                (name, kind + (" or null" if field.nullable else ""), field.metadata[b"description"].decode())
            )
            if nested is not None:
                rows += [(f"{name}.{inner}", t, d) for inner, t, d in nested.describe()]

        return rows


_TYPE_NAMES = {
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.int8(): "int8",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
}


def _column_name(field: pa.Field) -> list[Any]:
    """A column as JSON: [name, type, whether it may be null]."""
    return [field.name, _type_name(field.type), field.nullable]


def _type_name(arrow_type: pa.DataType) -> Any:
    """A type as JSON: its name; ["list", type, whether elements may be null]; ["struct", column, column,
    …]."""
    if pa.types.is_list(arrow_type):
        return ["list", _type_name(arrow_type.value_type), arrow_type.value_field.nullable]
    if pa.types.is_struct(arrow_type):
        return ["struct", *map(_column_name, arrow_type)]
    return _TYPE_NAMES[arrow_type]


def _arrow_schema(cls: type[Record]) -> pa.Schema:
    hints = get_type_hints(cls)
    fields = []
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass by `record`
        nested = f.metadata.get("nested")
        if nested is None:
            arrow_type = f.metadata["arrow"]
        else:
            arrow_type = pa.struct(list(nested.schema()))
            if f.metadata["many"]:
                arrow_type = pa.list_(pa.field("element", arrow_type, nullable=False))
        nullable = type(None) in getattr(hints[f.name], "__args__", ())
        fields.append(pa.field(f.name, arrow_type, nullable, {"description": f.metadata["description"]}))

    return pa.schema(
        fields, metadata={"record": cls.__name__, "description": " ".join((cls.__doc__ or "").split())}
    )
