"""Two passes after the search of many shards whose dense index is not exact: the candidates that are missing
among the first ones of each shard.

All shards together score some candidates, and do not know how many of these are each one's. So a shard sends
somewhat more than its share, the best by value (`vector_kinds.first_for`). Where all of them are among the
best of all shards, it may have more: it is searched again for that question, and sends the rest down to the
value of the last of the best. What is merged is what is merged of shards that send all, and the rows that are
sent do not grow with the number of shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.rank_fusion import Best
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions, Block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer, by_block
from answermill.pipelines.steps.retrieve.shard_hits import (
    ROWS_PER_GROUP,
    SOURCES,
    Lists,
    QuestionVectors,
    ShardHit,
    search,
    to_table,
)
from answermill.pipelines.steps.retrieve.write_blocks import hits_of_group, merge_parts
from answermill.schemas.record import Record, column, record


@record
class Wanted(Record):
    """A question of which a shard may have more candidates. Rows are ordered by block, question, shard."""

    block: int = column(pa.int32(), "number of the question's block")
    question: int = column(pa.int32(), "the question's place in the block, from 0")
    shard: int = column(pa.int32(), "number of the shard")
    value: float = column(pa.float64(), "the lowest value of a candidate that is wanted")


class FindWanted(UnitWork):
    """The number of a group → the questions and shards of which more candidates are wanted."""

    def __init__(
        self,
        target: Pass,
        asked: AskedQuestions,
        shards: RunShards,
        settings: Retrieve,
        *,
        width: VectorSearch,
        hits: Pass,
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._count, self._settings = target, asked, shards.count, settings
        self._width, self._hits = width, hits

    def work(self, unit: int) -> None:
        timer, target = Timer(), self._target
        writer = PartWriter(target.folder, Wanted, unit)
        with Meter(target.step.work, unit) as meter, writer:
            parts = hits_of_group(unit, self._hits, self._asked, self._count)
            merged = merge_parts(parts, self._settings.depth, self._width, ["dense"])
            for block in sorted(merged):
                for question, source in sorted(merged[block]):
                    best = merged[block][question, source]
                    shards, value = wanted(best, self._width)
                    writer.write([Wanted(block, question, shard, value) for shard in shards])
            meter.add(self._asked.questions_in(self._asked.group(unit)))
        target.write(unit, writer.parts, timer.counts())


def wanted(best: Best, width: VectorSearch) -> tuple[list[int], float]:
    """(the shards that may have more candidates among the best of all, the lowest value of these), by the
    best of the first ones of each.

    >>> ids, values = ["a", "b", "c", "d"], np.array([9.0, 8, 7, 6])
    >>> best = Best.of(4, np.arange(4), ids, values, values)
    >>> wanted(best, VectorSearch(candidates=4, first=2)), wanted(best, VectorSearch(candidates=4, first=5))
    (([4], 6.0), ([], 6.0))
    """
    shards, sent = np.unique(best.shards, return_counts=True)
    lowest = float(best.values[-1]) if len(best) == width.candidates else -np.inf
    return shards[sent >= width.first].tolist(), lowest


class SearchAgain(ModelWork):
    """The number of a batch and a shard → the candidates of the shard that are wanted and were not sent, in a
    part for each group. A shard of which none are wanted is not opened."""

    def __init__(
        self,
        target: Pass,
        asked: AskedQuestions,
        shards: RunShards,
        settings: Retrieve,
        *,
        width: VectorSearch,
        vectors: Pass,
        wanted: Pass,
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards = target, asked, shards
        self._settings = settings.model_copy(update={"sources": ["dense"]})
        self._width, self._vectors, self._wanted = width, vectors, wanted

    def work(self, unit: int) -> None:
        timer, target, (batch, number) = Timer(), self._target, divmod(unit, self._shards.count)
        groups = self._asked.batch(batch)
        wanted = [_of_shard(part, number) for part in self._wanted.parts(groups)]
        writer = PartWriter(target.folder, ShardHit, unit, ROWS_PER_GROUP)

        with Meter(target.step.work, unit) as meter, ExitStack() as opened, writer:
            shard = opened.enter_context(self._shards.open(number)) if any(wanted) else None
            for place, (group, lowest) in enumerate(zip(groups, wanted, strict=True)):
                if place:
                    writer.begin_part()
                if shard is not None and lowest:
                    with timer.on("dense"):
                        for block, vectors in self._blocks(group):
                            if block.number in lowest:
                                lists = self._more(shard, number, block, vectors, lowest[block.number])
                                writer.write_table(to_table(block.number, lists))
                meter.add(self._asked.questions_in(self._asked.group(group)))
        target.write(unit, writer.parts, timer.counts())

    def _blocks(self, group: int) -> Iterator[tuple[Block, QuestionVectors]]:
        (part,) = self._vectors.parts([group])
        tables = [table for _, table in by_block(part)]
        yield from zip(
            self._asked.read(self._asked.group(group)), map(QuestionVectors.of_table, tables), strict=True
        )

    def _more(
        self, shard: Shard, number: int, block: Block, vectors: QuestionVectors, lowest: Mapping[int, float]
    ) -> Lists:
        """The candidates that follow the first ones, for some questions of a block: their places, and the
        lowest value."""
        places = sorted(lowest)
        some = Block(block.number, tuple(block.questions[place] for place in places))
        asked = QuestionVectors(vectors.vectors[places], vectors.encoder)
        whole = replace(self._width, first=0)
        hits = search(shard, number, some, asked, GlobalStatistics(), settings=self._settings, width=whole)
        lists = {
            (place, SOURCES.index("dense")): best[
                self._width.first : int((best.values >= lowest[place]).sum())
            ]
            for place, best in zip(places, hits["dense"], strict=True)
        }
        return {key: best for key, best in lists.items() if len(best)}


def _of_shard(part: PlacedPart, shard: int) -> dict[int, dict[int, float]]:
    """Block → place of a question → the lowest value that is wanted, of one shard."""
    own = [(block, table.filter(pc.equal(table["shard"], shard))) for block, table in by_block(part)]
    return {
        block: dict(zip(table["question"].to_pylist(), table["value"].to_pylist(), strict=True))
        for block, table in own
        if len(table)
    }
