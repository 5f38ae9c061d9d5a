"""Parts whose first column is the block, and whose rows follow its order: read block by block, and several
merged into one.

Many parts are merged in levels, PARTS_PER_MERGE at a time, so that no unit of work opens more of them,
whatever the number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.manifests.manifest import checked_once
from answermill.pipelines.runs.parquet_folder import Part, PartWriter, read_batches
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer, add_times
from answermill.schemas.record import Record

PARTS_PER_MERGE = 32
Tables = Callable[[list[pa.Table]], pa.Table]


def bins(parts: int) -> int:
    """Number of parts that are left of `parts` after one level of merging."""
    return -(-parts // PARTS_PER_MERGE)


def bin_of(number: int, parts: int) -> range:
    """The numbers of the parts, of `parts` in all, that are merged into the part of this number."""
    return range(parts)[number * PARTS_PER_MERGE : (number + 1) * PARTS_PER_MERGE]


def by_block(
    folder: Path, part: Part, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """(number, its rows) of each block that has rows. `columns`: 'block' and others; None = all."""
    waiting: list[pa.RecordBatch] = []
    number = -1
    for batch in read_batches(folder, part, columns, rows=8_192):
        blocks = batch.column("block").to_numpy()
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]):
            if waiting and blocks[start] != number:
                yield number, pa.Table.from_batches(waiting)
                waiting = []
            number = int(blocks[start])
            waiting.append(batch.slice(start, stop - start))
    if waiting:
        yield number, pa.Table.from_batches(waiting)


def block_rows(folder: Path, part: Part, number: int) -> pa.Table:
    """The rows of one block. Row groups that have none of them, by their statistics, are not read."""
    with pq.ParquetFile(checked_once(folder, part), page_checksum_verification=True) as file:
        bounds = [file.metadata.row_group(group).column(0).statistics for group in range(file.num_row_groups)]
        groups = [group for group, bound in enumerate(bounds) if bound.min <= number <= bound.max]
        table = file.read_row_groups(groups, use_threads=False)
    return table.filter(pc.equal(table["block"], number))


def merged(parts: Sequence[PlacedPart]) -> Iterator[tuple[int, list[pa.Table]]]:
    """(number, its rows in the parts that have some, in their order) of each block; holds one block in
    memory."""
    streams = [by_block(folder, part) for folder, part in parts]
    for number, tables in groupby(merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
        yield number, [table for _, table in tables]


class MergeParts(UnitWork):
    """Up to PARTS_PER_MERGE parts of a batch → one; `combine` makes one table of a block's tables."""

    def __init__(
        self,
        source: Pass,
        target: Pass,
        asked: AskedQuestions,
        *,
        record: type[Record],
        rows_per_group: int,
        combine: Tables = pa.concat_tables,
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._source, self._target, self._asked, self._combine = source, target, asked, combine
        self._record, self._rows_per_group = record, rows_per_group

    def work(self, unit: int) -> None:
        timer, target = Timer(), self._target
        batch, number = divmod(unit, target.in_batch)
        merging = bin_of(number, self._source.in_batch)
        parts = self._source.parts(batch, merging)
        before = self._source.times(batch, merging, self._asked.batch(batch), self._asked)
        writer = PartWriter(target.step.run / target.folder, self._record, unit, self._rows_per_group)

        with Meter(target.step.work, unit) as meter:
            with writer:
                for block, tables in merged(parts):
                    writer.write_table(self._combine(tables))
                    place = self._asked.place(block) - self._asked.batch(batch).start
                    meter.reach((place + 1) * self._asked.block_size)
            counts = PassCounts(rows=writer.part.rows) + add_times([before, timer.counts()])
            target.write(unit, {target.folder: writer.parts}, counts)
