"""Parts in the order of blocks: read block by block, looked up by block, and merged in any grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.shards.rank_fusion import Best
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.steps.retrieve import block_order
from answermill.pipelines.steps.retrieve.block_order import block_rows, by_block, merged
from answermill.pipelines.steps.retrieve.passes import PlacedPart
from answermill.pipelines.steps.retrieve.shard_hits import ShardHit, from_table, merge_tables, to_table

LISTS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 1)), st.lists(st.sampled_from([0.5, 1.0, 2.0]), max_size=4)
)


def block_table(block: int, shard: int, scores: Mapping[tuple[int, int], Sequence[float]]) -> pa.Table:
    """What a shard returns, whose ids are 'é<row>-<shard>'."""
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


def test_a_part_is_read_block_by_block_and_each_is_found_alone(tmp_path: Path) -> None:
    tables = {number: block_table(number, 0, {(0, 0): [1.0] * (number % 4)}) for number in range(0, 40, 3)}
    part = write(tmp_path, 0, list(tables.values()))
    whole = {number: table.to_pylist() for number, table in tables.items() if len(table)}
    assert {number: table.to_pylist() for number, table in by_block(*part)} == whole
    assert len(whole) == 10
    for number in range(-1, 42):
        assert block_rows(*part, number).to_pylist() == whole.get(number, [])
    assert [number for number, _ in by_block(*part, ["block"])] == list(whole)


def test_an_empty_part_has_no_block(tmp_path: Path) -> None:
    part = write(tmp_path, 0, [])
    assert list(by_block(*part)) == list(merged([part, part])) == []
    assert block_rows(*part, 0).num_rows == 0


def test_several_parts_are_merged_block_by_block_in_their_order(tmp_path: Path) -> None:
    parts = [
        write(
            tmp_path,
            shard,
            [block_table(block, shard, {(0, 0): [1.0]}) for block in range(shard, 6, shard + 1)],
        )
        for shard in range(3)
    ]
    blocks = {number: [table["shard"][0].as_py() for table in tables] for number, tables in merged(parts)}
    assert blocks == {0: [0], 1: [0, 1], 2: [0, 2], 3: [0, 1], 4: [0], 5: [0, 1, 2]}


@given(st.lists(LISTS, min_size=3, max_size=3), st.integers(1, 5))
def test_merging_in_any_grouping_is_one_sort(
    shards: list[Mapping[tuple[int, int], Sequence[float]]], depth: int
) -> None:
    tables = [table for shard, scores in enumerate(shards) if len(table := block_table(7, shard, scores))]
    if not tables:
        return

    at_once = merge_tables(tables, depth)
    rows = sorted(
        (row for table in tables for row in table.to_pylist()),
        key=lambda row: (row["question"], row["source"], -row["score"], row["passage_id"]),
    )
    by_list: dict[tuple[int, int], list[object]] = {}
    for row in rows:
        by_list.setdefault((row["question"], row["source"]), []).append(row)
    assert at_once.to_pylist() == [row for each in by_list.values() for row in each[:depth]]

    grouped = merge_tables(tables[:1], depth)
    for table in reversed(tables[1:]):
        grouped = merge_tables([table, grouped], depth)
    assert grouped.equals(at_once)
    assert to_table(7, from_table(at_once)).equals(at_once)


def test_levels_end_with_one_part_however_many_there_are() -> None:
    for parts in (1, 2, 32, 33, 15_000):
        levels = [parts]
        while levels[-1] > 1:
            levels.append(block_order.bins(levels[-1]))
        assert len(levels) <= 4
