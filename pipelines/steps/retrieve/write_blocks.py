"""The last pass: the lists of a group of questions are merged over all shards, fused, and written with their
passages to questions/ and retrieved/, block by block.

A unit opens one part of each shard and reads it whole, and then each shard that has some of the passages; of
these, and of the hits that are not merged yet, no more than some hundred MB are in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from answermill.files.store import in_parallel, requests_to
from answermill.indexing.shards.rank_fusion import Fused
from answermill.indexing.shards.shard_files import PASSAGES
from answermill.indexing.shards.vectors.vector_kinds import EXACT, VectorSearch
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED, RetrieveCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions, Block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import TIMES, Pass, PlacedPart, Timer, by_block
from answermill.pipelines.steps.retrieve.shard_hits import (
    SOURCES,
    Lists,
    cut_candidates,
    from_table,
    fuse_block,
    merge_lists,
    rows_by_shard,
    to_hit,
)
from answermill.schemas.corpus import Passage

T = TypeVar("T")
HITS_AT_ONCE = 2_000_000
"""Hits that are in memory before they are merged: some 200 MB."""
PASSAGES_AT_ONCE = 65_536
"""Passages that are in memory at a time: some 150 MB."""


class WriteBlocks(UnitWork):
    """The number of a group → parts of questions/ and retrieved/, and reports of the step, for each of its
    blocks that has none."""

    def __init__(
        self,
        target: Pass,
        asked: AskedQuestions,
        shards: RunShards,
        settings: Retrieve,
        *,
        hits: Sequence[Pass],
        step: Step[RetrieveCounts],
    ) -> None:
        super().__init__(target.step.name, target.step.work, RetrieveCounts)
        self._target, self._asked, self._shards, self._settings = target, asked, shards, settings
        self._hits, self._step = hits, step

    def work(self, unit: int) -> None:
        timer, step, counts = Timer(), self._step, RetrieveCounts()
        asked_blocks = list(self._asked.read(self._asked.group(unit)))
        blocks = [block for block in asked_blocks if not step.reports.has(block.number)]

        with Meter(self._target.step.work, unit) as meter:
            meter.add(sum(len(block.questions) for block in asked_blocks if block not in blocks))
            width = self._shards.width(self._settings.depth)
            parts = [
                part
                for hits in self._hits
                for part in hits_of_group(unit, hits, self._asked, self._shards.count)
            ]
            merged = merge_parts(parts, self._settings.depth, width) if blocks else {}
            lists = {block: cut_candidates(own, self._settings.depth, width) for block, own in merged.items()}

            def hits_of(block: Block) -> int:
                return sum(len(best) for best in lists.get(block.number, {}).values())

            for run in runs(blocks, hits_of, PASSAGES_AT_ONCE):
                fused = [
                    fuse_block(lists.get(block.number, {}), len(block.questions), self._settings.fusion_k)
                    for block in run
                ]
                passages = Fetched(self._shards, list(chain.from_iterable(chain.from_iterable(fused))))
                for block, ranked in zip(run, fused, strict=True):
                    report = step.reports.write(self._write(block, ranked, passages))
                    counts += report.counts
                    meter.add(len(block.questions))

            # Engines show the counts of a pass' report; the command takes the blocks' own, and these times.
            times = {name: getattr(timer.counts(), name) for name in TIMES}
            self._target.write(unit, (), replace(counts, **times))

    def _write(
        self, block: Block, fused: Sequence[Sequence[Fused]], fetched: Fetched
    ) -> Report[RetrieveCounts]:
        """Write a block's questions and hits; return its report."""
        run, passages = self._step.run, fetched.passages(list(chain.from_iterable(fused)))
        questions, retrieved = QUESTIONS.writer(run, block.number), RETRIEVED.writer(run, block.number)
        with questions, retrieved:
            questions.write(block.questions)
            for question, ranked in zip(block.questions, fused, strict=True):
                retrieved.write(
                    [to_hit(question, n, hit, passages[hit.passage_id]) for n, hit in enumerate(ranked, 1)]
                )

        by_source = {
            source: sum(source in hit.sources for ranked in fused for hit in ranked) for source in SOURCES
        }
        counts = RetrieveCounts(
            questions=len(block.questions),
            without_hits=sum(not ranked for ranked in fused),
            hits=retrieved.part.rows,
            bm25=by_source["bm25"],
            dense=by_source["dense"],
        )
        return Report(
            block.number, {QUESTIONS.name: questions.parts, RETRIEVED.name: retrieved.parts}, counts
        )


def hits_of_group(group: int, hits: Pass, asked: AskedQuestions, shards: int) -> list[PlacedPart]:
    """The hits of a group, a part of each of the shards."""
    batch, place = divmod(group, asked.groups_per_batch)
    return hits.parts(range(batch * shards, (batch + 1) * shards), place)


def merge_parts(
    parts: Sequence[PlacedPart], depth: int, width: VectorSearch = EXACT, only: Sequence[str] = SOURCES
) -> dict[int, Lists]:
    """Number of a block → its lists by some sources, merged over all parts, each of which is read once and
    whole: the best `depth`, and of a dense index of this `width` that is not exact the candidates."""
    sources = pa.array([SOURCES.index(source) for source in only], pa.int8())
    merged: dict[int, Lists] = {}
    for run in runs(parts, lambda placed: placed[1].rows, HITS_AT_ONCE):
        several = defaultdict(list, {block: [lists] for block, lists in merged.items()})
        for tables in in_parallel(by_block, run, requests_to(run[0][0])):
            for block, table in tables:
                rows = (
                    table if len(only) == len(SOURCES) else table.filter(pc.is_in(table["source"], sources))
                )
                several[block].append(from_table(rows))
        merged = {block: merge_lists(lists, depth, width) for block, lists in several.items()}
    return merged


class Fetched:
    """The passages of some hits, by the shards of a run, each of which is opened once; as a table, a tenth of
    the records."""

    def __init__(self, shards: RunShards, hits: Sequence[Fused]) -> None:
        tables = [Passage.schema().empty_table()]
        for number, rows in rows_by_shard(hits).items():
            with shards.open(number, only=PASSAGES) as shard:
                tables.append(shard.passage_table(rows))
        self._table = pa.concat_tables(tables).combine_chunks()
        self._rows = {passage_id: row for row, passage_id in enumerate(self._table["passage_id"].to_pylist())}

    def passages(self, hits: Sequence[Fused]) -> Mapping[str, Passage]:
        """Passages of some of the hits, by id."""
        rows = sorted({self._rows[hit.passage_id] for hit in hits})
        return {
            passage.passage_id: passage
            for passage in Passage.rows(self._table.take(pa.array(rows, pa.int64())))
        }


def runs(items: Sequence[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items that follow each other, as many as have a `size` of up to `most` in all, but at least one.

    >>> list(runs([3, 4, 9, 1], int, 8))
    [[3, 4], [9], [1]]
    """
    run, total = list[T](), 0
    for item in items:
        if run and total + size(item) > most:
            yield run
            run, total = [], 0
        run.append(item)
        total += size(item)
    if run:
        yield run
