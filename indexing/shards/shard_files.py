"""The files of a shard: their names, their description in shard.json, and the check that they are the ones that
were written.

    shards/00017-of-00512-1f83c0de/   the digits are of the attempt that built it
      passages.parquet   row i is …
      bm25/              … Lucene's document i …
      documents.npy      … or, of an index of others, the row of each of its documents
      dense.faiss        … and vector i; absent if the shard was built without an encoder
      dense/             in its place where the index is not exact: codes or a graph, and the stored vectors
      gone/              rows that are not searched, if it was taken over from an earlier run (tombstones.py)
      codes/<model>/     bits or vectors of each different sentence, one folder for each model that the plan reads them by
      shard.json         written last: rows, versions, encoder, and the size and SHA-256 of every other file
    shards/quantizer.faiss            what the codes of all shards were trained with; each shard.json has its SHA-256

Lucene and FAISS do not notice every flipped bit, so opening a shard compares the checksums before either
reads a byte.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import ListedFile, WrongShape, changes, read_json, sha256
from answermill.indexing.shards.lucene.analyzers import ENGLISH
from answermill.schemas.corpus import Passage

FORMAT = 1
SHARD_FILE = "shard.json"
PASSAGES = "passages.parquet"
BM25 = "bm25"
DENSE = "dense.faiss"
CODED = "dense"
QUANTIZER = "quantizer.faiss"

ROWS_PER_GROUP = 256
"""Rows of a row group of passages.parquet, which is read and unpacked to fetch one passage."""


class ShardDamaged(RuntimeError):
    """A file of the shard is missing, or is not the one that was written; the message says what to type."""

    exit_code = 65


class ShardMismatch(RuntimeError):
    """The shard was built by another Lucene, encoder or quantizer than this job uses."""

    exit_code = 65


def list_files(folder: Path, but: Container[str] = ()) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below a folder, by its path in it, but for some."""
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return {
        name: {"size": path.stat().st_size, "sha256": sha256(path)}
        for name, path in files.items()
        if name not in but
    }


@dataclass(frozen=True, slots=True)
class EncoderName:
    """The encoder that a shard's vectors are by."""

    name: str
    fingerprint: str
    dimension: int
    precision: str


@dataclass(frozen=True, slots=True)
class CodedName:
    """The form of a dense index that is not exact."""

    kind: str
    """The word or FAISS' factory string that the job gave."""
    stored: str
    """'fp16' or 'int8': the vectors that give exact scores."""
    quantizer: str
    """SHA-256 of the quantizer's file."""


@dataclass(frozen=True, slots=True)
class LuceneFields:
    """Contents of the Lucene index: the words by this analyser; and titles once more, by themselves."""

    analyzer: str
    language: str = ENGLISH
    titles: bool = False
    foreign: bool = False
    """True if it is an index of others (lucene/given_index.py)."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """The content of shard.json."""

    format: int
    rows: int
    passage_schema: str
    lucene: str
    bm25: LuceneFields
    encoder: EncoderName | None
    files: dict[str, ListedFile]
    codes: list[dict[str, Any]] = field(default_factory=list)
    coded: CodedName | None = None
    """None if the dense index is exact, or there is none."""
    gone: int = 0
    """Tombstones: rows among `rows` that are not searched."""


@dataclass(frozen=True, slots=True)
class _Version:
    format: object
    passage_schema: object = None


def read_shard_file(folder: Path, digest: str | None = None) -> ShardFile:
    """The content of shard.json. Its SHA-256 is compared with `digest`, if that is known: the manifest of
    shards/ has it.

    Raises ShardDamaged if it is missing, was changed, or is not such JSON; ShardMismatch if its format is
    another.
    """
    file = folder / SHARD_FILE
    try:
        if digest is not None and sha256(file) != digest:
            raise ShardDamaged(f"{file} was changed since it was written (SHA-256); {what_to_do(folder, '')}")
        version = read_json(file, _Version)
        if version.format != FORMAT or version.passage_schema != Passage.fingerprint():
            raise ShardMismatch(f"{folder}: written by another version of this program; {what_to_do(folder)}")
        return read_json(file, ShardFile)
    except FileNotFoundError:
        raise ShardDamaged(f"{file} is missing; {what_to_do(folder, '')}") from None
    except WrongShape as e:
        raise ShardDamaged(f"{e}; {what_to_do(folder)}") from None


def write_shard_file(folder: Path, contents: Mapping[str, Any]) -> int:
    """Write the values of a `ShardFile`, the last file of a shard; returns the bytes of all its files."""
    file = folder / SHARD_FILE
    file.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
    size: int = sum(listed["size"] for listed in contents["files"].values())
    return size + file.stat().st_size


def check_files(folder: Path, files: Mapping[str, ListedFile], checksums: bool = True) -> None:
    """Compare files with their entries in shard.json: size and, unless `checksums` is off, SHA-256. Raises
    ShardDamaged."""
    change = next(changes(folder, files, checksums), None)
    if change is not None:
        # Every run notices a change of sizes, and builds the shard again.
        is_noticed = next(changes(folder, files, checksums=False), None) is not None
        raise ShardDamaged(f"{change}; {what_to_do(folder, '' if is_noticed else 'verify')}")


def what_to_do(folder: Path, option: str = "redo") -> str:
    """The end of an error message about a shard that must be built again: the command.

    `option`: 'redo' builds all shards again, 'verify' those whose bytes were changed, '' those whose damage
    every run notices.
    """
    return (
        f"`answermill run JOB.toml --out {folder.parent.parent}{f' --{option} index' if option else ''}` "
        "builds it again"
    )
