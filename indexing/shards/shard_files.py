"""The files of a shard: their names, what shard.json says of them, and whether they are the ones that were written.

    shards/00017-of-00512/
      passages.parquet   row i is …
      bm25/              … Lucene's document i …
      dense.faiss        … and vector i; absent if the shard was built without an encoder
      codes/<model>/     the bits of each different sentence's matrix, one folder for each model that the plan reads bits by
      shard.json         written last: rows, versions, encoder, and the size and SHA-256 of every other file

Lucene and FAISS do not notice every flipped bit, so opening a shard compares the checksums before either reads a byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.atomic_files import sha256
from schemas.corpus import Passage

FORMAT = 1
SHARD_FILE = "shard.json"
PASSAGES = "passages.parquet"
BM25 = "bm25"
DENSE = "dense.faiss"

ROWS_PER_GROUP = 256
"""Rows of a row group of passages.parquet: what is read and unpacked to fetch one passage."""


class ShardDamaged(RuntimeError):
    """A file of the shard is missing, or is not the one that was written; the message says what to type."""

    exit_code = 65


class ShardMismatch(RuntimeError):
    """The shard was built by another Lucene, or another encoder, than this job uses."""

    exit_code = 65


def list_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_shard_file(folder: Path) -> dict[str, Any]:
    """What shard.json says. Raises FileNotFoundError; ShardDamaged if it is no JSON, ShardMismatch if its format is another."""
    try:
        contents: dict[str, Any] = json.loads((folder / SHARD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise FileNotFoundError(f"{folder}: no {SHARD_FILE}, so no shard; run the index step") from e
    except ValueError as e:
        raise ShardDamaged(f"{folder / SHARD_FILE}: not JSON ({e}); {what_to_do(folder)}") from e
    if contents.get("format") != FORMAT or contents.get("passage_schema") != Passage.fingerprint():
        raise ShardMismatch(f"{folder}: written by another version of this program; {what_to_do(folder)}")
    return contents


def check_files(folder: Path, files: Mapping[str, Mapping[str, Any]], checksums: bool = True) -> None:
    """Compare files with what shard.json says of them: size and, unless `checksums` is off, SHA-256. Raises ShardDamaged."""
    for name, file in files.items():
        path = folder / name
        if not path.is_file():
            raise ShardDamaged(f"{path}: missing; {what_to_do(folder)}")
        if path.stat().st_size != file["size"]:
            raise ShardDamaged(f"{path}: {path.stat().st_size:,} bytes, {file['size']:,} were written; {what_to_do(folder)}")
        if checksums and sha256(path) != file["sha256"]:
            raise ShardDamaged(f"{path}: its SHA-256 is not the one that was written; {what_to_do(folder)}")


def what_to_do(folder: Path) -> str:
    """The end of an error message about a shard that must be built again."""
    return f"delete {folder} and run the index step again"
