"""Tombstones: rows of a shard that was taken over from an earlier run, whose passages are not in this run's
passages/.

    shards/00017-of-00512-1f83c0de/gone/
      rows.npy   their numbers, int64 [tombstones], ascending
      bm25/      a Lucene index of their passages alone, by the shard's analyser

A search leaves the rows out, in Lucene and in FAISS, before the best are chosen. What BM25 counts in the
small index, documents, words, and documents with a word, is subtracted from what it counts in the shard's:
the statistics are those of an index without them. `shard.json` has their number as `gone`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from answermill.indexing.shards.lucene.bm25 import build
from answermill.schemas.arrays import NO_ROWS, Rows

GONE = "gone"
ROWS, BM25 = f"{GONE}/rows.npy", f"{GONE}/bm25"
"""Places in a shard's folder."""


def write_tombstones(shard: Path, rows: Rows, passages: Iterable[tuple[str, str]], language: str) -> None:
    """Write the tombstones of a shard: ascending rows, and (title, text) of each. The JVM must be started
    (`jvm.start`)."""
    build(passages, shard / BM25, language)
    np.save(shard / ROWS, rows, allow_pickle=False)


def gone_rows(shard: Path, number: int) -> Rows:
    """The rows of a shard that are gone, [number], ascending. `number`: what its shard.json has as `gone`.
    Raises FileNotFoundError if it is not 0 and they are not there."""
    if not number:
        return NO_ROWS
    rows: Rows = np.load(shard / ROWS, allow_pickle=False)
    return rows
