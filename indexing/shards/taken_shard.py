"""Takes a shard over from an earlier run: its indexes and codes stay as they are, its passages are written as
this run has them, and rows whose passages are gone become tombstones.

A file that stays has two names, one in each run, where the file system can do that, and is copied where it
cannot. No file of a shard is ever changed in place, so neither run feels what becomes of the other.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from answermill.files.atomic_files import link_or_copy
from answermill.indexing.shards.lucene.jvm import find_java, start
from answermill.indexing.shards.sentence_codes import CodesName
from answermill.indexing.shards.shard_builder import ShardReport, ShardSettings, new_shard, passage_writer
from answermill.indexing.shards.shard_files import (
    PASSAGES,
    ROWS_PER_GROUP,
    SHARD_FILE,
    ShardFile,
    check_files,
    list_files,
    write_shard_file,
)
from answermill.indexing.shards.tombstones import GONE, write_tombstones
from answermill.schemas.arrays import Rows


@dataclass(frozen=True, slots=True)
class FormerShard:
    """A shard of an earlier run, on this machine."""

    folder: Path
    contents: ShardFile

    @property
    def files(self) -> dict[str, Any]:
        """The files that a shard takes over from it, as they are listed: all but its passages and its
        tombstones."""
        return {
            name: file
            for name, file in self.contents.files.items()
            if name != PASSAGES and not name.startswith(f"{GONE}/")
        }


def take_over_shard(
    former: FormerShard, passages: pa.Table, gone: Rows, folder: Path, settings: ShardSettings
) -> ShardReport:
    """Write the shard whose rows are those of `former`, with these passages [rows], of which the rows `gone`,
    ascending, are tombstones. A folder that is there already is replaced.

    Raises ShardDamaged if a file of the former shard is not the one that was written, and JavaMissing.
    """
    began = time.perf_counter()
    check_files(former.folder, former.files)
    with new_shard(folder) as new:
        for name in former.files:
            link_or_copy(former.folder / name, new / name)
        with passage_writer(new / PASSAGES) as writer:
            writer.write_table(passages, row_group_size=ROWS_PER_GROUP)
        if len(gone):
            start(settings.java or find_java(), settings.heap)
            texts = passages.select(["title", "text"]).take(pa.array(gone)).to_pylist()
            write_tombstones(new, gone, [(row["title"], row["text"]) for row in texts], settings.language)
        size = _describe(former, new, len(gone))

    codes = tuple(CodesName(**entry) for entry in former.contents.codes)
    seconds = time.perf_counter() - began
    return ShardReport(len(passages) - len(gone), size, seconds, 0.0, codes, (0.0,) * len(codes))


def _describe(former: FormerShard, folder: Path, gone: int) -> int:
    """Write the file that lists all others, the last one, and return the bytes of all. What stays is not read
    again."""
    contents = json.loads((former.folder / SHARD_FILE).read_bytes())
    stays = {name: contents["files"][name] for name in former.files}
    written = list_files(folder, but=stays)
    contents["files"] = dict(sorted({**stays, **written}.items()))
    contents["gone"] = gone
    return write_shard_file(folder, contents)
