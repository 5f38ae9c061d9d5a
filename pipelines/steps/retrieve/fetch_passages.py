"""Fetching of passages, shard by shard: each shard is opened once, and the passages that blocks need of it
are written in the order of the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import PASSAGES
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.block_order import by_block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer
from answermill.schemas.corpus import Passage
from answermill.schemas.record import Record, column, one, record

FOLDER = "passages"
ROWS_PER_GROUP = 512
AT_ONCE = 65_536
"""Different passages of a shard that are in memory at a time: some 150 MB."""
Wanted: TypeAlias = tuple[int, npt.NDArray[np.int64]]
"""(number of a block, the rows of a shard that are among its hits)."""


@record
class FetchedPassage(Record):
    """A passage that is among the hits of a block. Rows are ordered by block, shard, and row in the shard."""

    block: int = column(pa.int32(), "number of the block")
    passage: Passage = one(Passage, "the passage")


class FetchPassages(UnitWork):
    """The number of a shard → for each batch the passages of the shard that are among its hits."""

    def __init__(self, hits: Pass, target: Pass, asked: AskedQuestions, shards: RunShards) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._hits, self._target, self._asked, self._shards = hits, target, asked, shards

    def work(self, unit: int) -> None:
        timer, target, parts = Timer(), self._target, {}

        with Meter(target.step.work, unit) as meter:
            with ExitStack() as opened:
                shard: Shard | None = None
                for batch in range(self._asked.batches):
                    writer = PartWriter(
                        target.step.run / target.folder_of(batch), FetchedPassage, unit, ROWS_PER_GROUP
                    )
                    with writer:
                        (hits,) = self._hits.all_parts(batch)
                        for group in groups(wanted(hits, unit)):
                            shard = shard or opened.enter_context(
                                self._shards.open(unit, lambda name: name == PASSAGES)
                            )
                            for table in fetch(shard, group):
                                writer.write_table(table)

                    parts[target.folder_of(batch)] = writer.parts
                    meter.add(self._asked.questions_in(self._asked.batch(batch)))

            target.write(
                unit, parts, PassCounts(rows=sum(part.rows for (part,) in parts.values())) + timer.counts()
            )


def wanted(hits: PlacedPart, shard: int) -> Iterator[Wanted]:
    """The rows of a shard that each block of a batch needs."""
    for block, table in by_block(*hits, ["block", "shard", "row"]):
        rows = np.unique(table["row"].to_numpy()[table["shard"].to_numpy() == shard])
        if len(rows):
            yield block, rows


def groups(blocks: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    """Runs of blocks that follow each other, each of as many as need AT_ONCE rows."""
    group: list[Wanted] = []
    for block_rows in blocks:
        group.append(block_rows)
        if sum(len(rows) for _, rows in group) >= AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def fetch(shard: Shard, group: list[Wanted]) -> Iterator[pa.Table]:
    """The passages of each block of a group; a row group of the shard is read once, however many blocks need
    it."""
    rows = np.unique(np.concatenate([rows for _, rows in group]))
    passages = shard.passage_table(rows)
    for block, wanted_rows in group:
        table = passages.take(pa.array(np.searchsorted(rows, wanted_rows))).combine_chunks()
        columns = [table[name].chunk(0) for name in Passage.schema().names]
        nested = pa.StructArray.from_arrays(columns, fields=list(Passage.schema()))
        blocks = pa.array(np.full(len(table), block, np.int32))
        yield pa.Table.from_arrays([blocks, nested], schema=FetchedPassage.schema())
