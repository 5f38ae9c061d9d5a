"""Contents of a data set's file, apart from its packing: their digest, and their writing.

The same rows have other bytes in a Parquet file or a gzip file of another version of a library, so a digest
is that of the unpacked contents.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing, sha256

Content: TypeAlias = pa.Table | bytes | IO[bytes]
"""A table, unpacked bytes, or an open file of them."""
AS2 = (
    ("question_id", pa.string()),
    ("question", pa.string()),
    ("document_id", pa.string()),
    ("document_title", pa.string()),
    ("sentence_index", pa.int32()),
    ("sentence", pa.string()),
    ("label", pa.int8()),
)
"""Columns of the answer sentence selection sets."""


def as2_table(rows: Iterable[Sequence[Any]], more: Sequence[tuple[str, pa.DataType]] = ()) -> pa.Table:
    """Table of rows, whose cells are in the order of AS2's columns and then of `more`."""
    schema = pa.schema([*AS2, *more])
    cells = list(zip(*rows, strict=True)) or [()] * len(schema)
    columns = [pa.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
    return pa.table(columns, schema)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as one JSON object a line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def content_sha256(path: Path) -> str:
    """SHA-256 of a Parquet file's columns, of the values of JSON lines, of the unpacked bytes of another gzip
    file, else of the bytes.

    For a crawl file it is that of the bytes: the ends of gzip members are part of what is measured.
    """
    if path.name.endswith(".parquet"):
        table = pq.read_table(path)
        parts: Iterable[str] = (json.dumps([name, table[name].to_pylist()]) for name in table.column_names)
        return _digest(part.encode() for part in parts)
    if path.name.endswith(".jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return _digest((json.dumps(json.loads(line), sort_keys=True) + "\n").encode() for line in lines)
    if _is_packed(path):
        with gzip.open(path) as file:
            return _digest(iter(lambda: file.read(1 << 20), b""))
    return sha256(path)


def write(path: Path, content: Content) -> None:
    """Write the file, which appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        if isinstance(content, pa.Table):
            pq.write_table(content, temporary, compression="zstd")
        elif isinstance(content, bytes):
            temporary.write_bytes(gzip.compress(content, mtime=0) if _is_packed(path) else content)
        else:
            with temporary.open("wb") as file:
                shutil.copyfileobj(content, file)


def _is_packed(path: Path) -> bool:
    """True if the gzip around a file is ours, and not the published file's."""
    return path.name.endswith((".jsonl.gz", ".json.gz", ".tsv.gz"))


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()
