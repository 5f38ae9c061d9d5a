"""The shard folder: passages, a Lucene index and a FAISS index in one order, and what they were built with.

    00000-of-00004/   passages.parquet (row i is vector i and Lucene's document i)   bm25/   dense.faiss   shard.json

A shard is built in a temporary folder beside its place and renamed when it is complete. `shard.json`, written last, holds
the SHA-256 of every file, which is checked before anything is opened: Lucene and FAISS do not notice a flipped bit.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indexing.bm25 import Bm25Index, Bm25Writer
from indexing.dense import DenseIndex, DenseWriter, Encoder
from indexing.java import Java, anserini_jar, lucene_version, start
from schemas.corpus import Passage

FORMAT = 1
SHARD_FILE = "shard.json"
CHUNK = 1_024  # passages in memory while a shard is built
ROWS_PER_GROUP = 128  # what is read to fetch one passage


class ShardBroken(RuntimeError):
    """A shard that must not be searched; the message says what is wrong and what to type."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """How a shard is searched, and Java's memory."""

    k1: float = 0.9
    b: float = 0.4
    heap: str = "1g"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What was built: passages, bytes on disk, and seconds of each index."""

    passages: int
    bytes: int
    seconds_bm25: float
    seconds_dense: float


def build(passages: Iterable[Passage], folder: Path, settings: ShardSettings, encoder: Encoder, java: Java) -> ShardReport:
    """Build a shard of the passages, in one pass over them; memory does not grow with their number but for the vectors.

    A shard that stands in the folder is replaced. Raises OSError where it cannot be written; nothing is left then.
    """
    start(java, settings.heap)
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.tmp"
    seconds = {"bm25": 0.0, "dense": 0.0}
    rows = 0
    try:
        building.mkdir()
        vectors = DenseWriter(encoder.dimension)
        parquet = pq.ParquetWriter(
            building / "passages.parquet", Passage.schema(), compression="zstd", write_page_checksum=True
        )
        with parquet, Bm25Writer(building / "bm25") as words:
            for chunk in _chunks(passages):
                parquet.write_table(Passage.table(chunk), row_group_size=ROWS_PER_GROUP)
                began = time.perf_counter()
                for passage in chunk:
                    words.add(passage.title, passage.text)
                seconds["bm25"] += time.perf_counter() - began
                began = time.perf_counter()
                vectors.add(encoder.encode_passages([(passage.title, passage.text) for passage in chunk]))
                seconds["dense"] += time.perf_counter() - began
                rows += len(chunk)
            began = time.perf_counter()
        seconds["bm25"] += time.perf_counter() - began  # Lucene merges and commits as it closes
        vectors.write(building / "dense.faiss")
        files = {path.relative_to(building).as_posix(): path for path in sorted(building.rglob("*")) if path.is_file()}
        about = {
            "format": FORMAT,
            "schema": Passage.fingerprint(),
            "passages": rows,
            "k1": settings.k1,
            "b": settings.b,
            "lucene": lucene_version(anserini_jar()),
            "faiss": version("faiss-cpu"),
            "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension},
            "files": {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in files.items()},
        }
        (building / SHARD_FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        for path in (*files.values(), building / SHARD_FILE):
            _sync(path)
        shutil.rmtree(folder, ignore_errors=True)
        building.replace(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return ShardReport(rows, size, seconds["bm25"], seconds["dense"])


class Shard:
    """A shard, open for search. Its indexes are opened when they are first asked for."""

    def __init__(self, folder: Path, java: Java, heap: str = "1g") -> None:
        """Check every file's SHA-256. Raises ShardBroken where one differs, or another Lucene or format built the shard."""
        self.folder = folder
        self._java, self._heap = java, heap
        self.about = _read_about(folder)
        self._parquet = pq.ParquetFile(folder / "passages.parquet", memory_map=True, page_checksum_verification=True)
        groups = [self._parquet.metadata.row_group(n).num_rows for n in range(self._parquet.num_row_groups)]
        self._first_rows = np.cumsum([0, *groups])  # first row of each row group, and the number of rows

    def __len__(self) -> int:
        return int(self.about["passages"])

    @cached_property
    def bm25(self) -> Bm25Index:
        start(self._java, self._heap)
        return Bm25Index(self.folder / "bm25", self.about["k1"], self.about["b"])

    @cached_property
    def dense(self) -> DenseIndex:
        return DenseIndex.open(self.folder / "dense.faiss")

    @cached_property
    def _ids(self) -> pa.ChunkedArray:
        return self._parquet.read(columns=["passage_id"]).column("passage_id")

    def passage_ids(self, rows: Sequence[int] | np.ndarray) -> list[str]:
        """The ids of these rows, in their order."""
        ids: list[str] = self._ids.take(pa.array(rows, pa.int64())).to_pylist()
        return ids

    def passages(self, rows: Sequence[int] | np.ndarray) -> list[Passage]:
        """The passages of these rows, in their order; only the row groups that hold them are read."""
        found: dict[int, Passage] = {}
        wanted = np.unique(np.asarray(rows, np.int64))
        if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < len(self):
            raise IndexError(f"{self.folder}: rows {wanted[0]}..{wanted[-1]} of {len(self)} passages")
        group_of = np.searchsorted(self._first_rows, wanted, side="right") - 1
        for group in np.unique(group_of):
            inside = wanted[group_of == group]
            table = self._parquet.read_row_group(int(group)).take(pa.array(inside - self._first_rows[group]))
            found.update(zip(inside.tolist(), Passage.rows(table), strict=True))
        return [found[int(row)] for row in rows]

    def close(self) -> None:
        self._parquet.close()
        if "bm25" in self.__dict__:
            self.bm25.close()


def _read_about(folder: Path) -> dict[str, Any]:
    again = f"delete {folder.parent} and run `answermill index` again"
    try:
        about: dict[str, Any] = json.loads((folder / SHARD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise ShardBroken(f"{folder}: no readable {SHARD_FILE} ({e}); {again}") from e
    if (about["format"], about["schema"]) != (FORMAT, Passage.fingerprint()):
        raise ShardBroken(f"{folder}: built by another version (format {about['format']}, schema {about['schema']}); {again}")
    here = lucene_version(anserini_jar())
    if about["lucene"] != here:
        raise ShardBroken(f"{folder}: built with Lucene {about['lucene']}, here is {here}; {again}")
    for name, file in about["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != file["bytes"] or _sha256(path) != file["sha256"]:
            raise ShardBroken(f"{path} was changed since it was written, or is missing (SHA-256); {again}")
    return about


def _chunks(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    iterator = iter(passages)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
