"""Parts in the order of blocks are read block by block, and merged over shards in any grouping."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.shards.rank_fusion import Best
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.steps.retrieve import write_blocks
from answermill.pipelines.steps.retrieve.passes import PlacedPart, by_block
from answermill.pipelines.steps.retrieve.shard_hits import ShardHit, from_table, to_table
from answermill.pipelines.steps.retrieve.write_blocks import merge_parts

Scores = Mapping[tuple[int, int], Sequence[float]]
LISTS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 1)), st.lists(st.sampled_from([0.5, 1.0, 2.0]), max_size=4)
)


def block_table(block: int, shard: int, scores: Scores) -> pa.Table:
    """The hits of a shard, whose ids are 'é<row>-<shard>'."""
    lists = {
        key: Best.of(
            shard,
            np.arange(len(each)),
            [f"é{row}-{shard}" for row in range(len(each))],
            -np.sort(-np.array(each)),
        )
        for key, each in scores.items()
        if each
    }
    return to_table(block, lists)


def write(folder: Path, unit: int, tables: Sequence[pa.Table]) -> PlacedPart:
    writer = PartWriter(folder, ShardHit, unit, rows_per_group=3)
    with writer:
        for table in tables:
            writer.write_table(table)
    return folder, writer.part


def test_a_part_is_read_block_by_block(tmp_path: Path) -> None:
    tables = {number: block_table(number, 0, {(0, 0): [1.0] * (number % 4)}) for number in range(0, 40, 3)}
    part = write(tmp_path, 0, list(tables.values()))
    whole = {number: table.to_pylist() for number, table in tables.items() if len(table)}
    assert {number: table.to_pylist() for number, table in by_block(part)} == whole
    assert len(whole) == 10


def test_an_empty_part_has_no_block(tmp_path: Path) -> None:
    part = write(tmp_path, 0, [])
    assert by_block(part) == []
    assert merge_parts([part, part], depth=1) == {}


@given(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 9))
def test_merging_in_any_grouping_is_one_sort(
    shards: list[tuple[Scores, Scores]], depth: int, hits_at_once: int
) -> None:
    tables = [
        [block_table(block, shard, scores) for block, scores in zip((7, 9), blocks, strict=True)]
        for shard, blocks in enumerate(shards)
    ]
    with tempfile.TemporaryDirectory() as folder:
        parts = [write(Path(folder), shard, blocks) for shard, blocks in enumerate(tables)]
        with mock.patch.object(write_blocks, "HITS_AT_ONCE", hits_at_once):
            merged = merge_parts(parts, depth)

    rows = sorted(
        (row for blocks in tables for table in blocks for row in table.to_pylist()),
        key=lambda row: (row["block"], row["question"], row["source"], -row["score"], row["passage_id"]),
    )
    lists: dict[tuple[int, ...], list[object]] = {}
    for row in rows:
        lists.setdefault((row["block"], row["question"], row["source"]), []).append(row)
    expected = [row for each in lists.values() for row in each[:depth]]

    written = {block: to_table(block, merged[block]) for block in sorted(merged)}
    assert [row for table in written.values() for row in table.to_pylist()] == expected
    assert all(to_table(block, from_table(table)).equals(table) for block, table in written.items())
