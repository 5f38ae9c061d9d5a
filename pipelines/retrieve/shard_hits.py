"""What the indexes of a shard return for a block of questions, as rows of a part; merging is associative, ties go by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from indexing.shards.fusion import Best, merge
from schemas.record import Record, column, record

SOURCES = ("bm25", "dense")
ROWS_PER_GROUP = 16_384
FOLDER = "hits"
Lists = Mapping[tuple[int, int], Best]
"""(place of a question in its block, place of a source in SOURCES) → the best passages."""


@record
class ShardHit(Record):
    """A passage that an index returned for a question. Rows are ordered by block, question, source, and then best first."""

    block: int = column(pa.int32(), "number of the question's block")
    question: int = column(pa.int32(), "the question's place in the block, from 0")
    source: int = column(pa.int8(), "0: BM25; 1: the dense index")
    shard: int = column(pa.int32(), "number of the shard, from 0")
    row: int = column(pa.int64(), "the passage's row in the shard")
    passage_id: str = column(pa.string(), "Passage.passage_id")
    score: float = column(pa.float64(), "the index's score")


def to_table(block: int, lists: Lists) -> pa.Table:
    """A block's lists as rows."""
    keys = sorted(lists)
    if not keys:
        return ShardHit.schema().empty_table()
    bests = [lists[key] for key in keys]
    sizes = [len(best) for best in bests]
    columns = [
        np.full(sum(sizes), block, np.int32),
        np.repeat(np.array([question for question, _ in keys], np.int32), sizes),
        np.repeat(np.array([source for _, source in keys], np.int8), sizes),
        np.concatenate([best.shards for best in bests]),
        np.concatenate([best.rows for best in bests]),
        pa.array(np.concatenate([best.ids for best in bests])).cast(pa.string()),
        np.concatenate([best.scores for best in bests]),
    ]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=ShardHit.schema())


def from_table(table: pa.Table) -> dict[tuple[int, int], Best]:
    """The lists of a block; those that have no passage are absent."""
    question, source, shard, row, score = (table[name].to_numpy() for name in ("question", "source", "shard", "row", "score"))
    ids = np.array(table["passage_id"].cast(pa.binary()).to_pylist(), np.bytes_)
    key = question.astype(np.int64) * len(SOURCES) + source
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]
    return {
        (int(question[start]), int(source[start])): Best(shard[start:end], row[start:end], ids[start:end], score[start:end])
        for start, end in pairwise(edges)
        if start < end
    }


def merge_tables(tables: Sequence[pa.Table], depth: int) -> pa.Table:
    """The best `depth` of each list over several tables of one block."""
    lists: dict[tuple[int, int], list[Best]] = {}
    for table in tables:
        for key, best in from_table(table).items():
            lists.setdefault(key, []).append(best)
    block = tables[0]["block"][0].as_py()
    return to_table(block, {key: merge(bests, depth) for key, bests in lists.items()})
