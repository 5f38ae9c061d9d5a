"""The last pass: a block's lists are fused, and written with their passages to questions/ and retrieved/.

The unit's report has the block's share of the time of the earlier passes, by its questions: all questions of
a batch are searched in the same shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from answermill.indexing.shards.rank_fusion import Fused
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED, PassCounts, RetrieveCounts
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions, Block
from answermill.pipelines.steps.retrieve.block_order import block_rows
from answermill.pipelines.steps.retrieve.fetch_passages import FetchedPassage
from answermill.pipelines.steps.retrieve.passes import TIMES, Pass, Timer, add_times, share
from answermill.pipelines.steps.retrieve.shard_hits import SOURCES, from_table, fuse_block, to_hit
from answermill.schemas.corpus import Passage


@dataclass(frozen=True)
class Passes:
    """The last pass of each kind before this one: `words` has one part, `hits` one for each batch.

    `words` and `vectors` are None where the index that needs them is not searched.
    """

    words: Pass | None
    vectors: Pass | None
    hits: Pass
    passages: Pass

    def times(self, place: int, asked: AskedQuestions) -> PassCounts:
        """The share of the block at a place of the file in their milliseconds."""
        block, batch = range(place, place + 1), place // asked.blocks_per_batch
        shares = [
            self.hits.times(batch, (0,), block, asked),
            self.passages.times(batch, range(self.passages.in_batch), block, asked),
        ]
        if self.words is not None:
            shares.append(share(self.words.report(0).counts, block, range(asked.blocks), asked))
        if self.vectors is not None:
            encoding = place // asked.blocks_per_encoding
            shares.append(share(self.vectors.report(encoding).counts, block, asked.encoding(encoding), asked))
        return add_times(shares)


class WriteBlock(UnitWork):
    """The number of a block → parts of questions/ and retrieved/; and the unit's report."""

    def __init__(
        self, passes: Passes, asked: AskedQuestions, settings: Retrieve, step: Step[RetrieveCounts]
    ) -> None:
        super().__init__(step.name, step.work, RetrieveCounts)
        self._passes, self._asked = passes, asked
        self._settings, self._step = settings, step

    def work(self, unit: int) -> None:
        timer, place = Timer(), self._asked.place(unit)
        batch = place // self._asked.blocks_per_batch

        with Meter(self._step.work, unit) as meter:
            (block,) = self._asked.read(range(place, place + 1))
            (hits,) = self._passes.hits.all_parts(batch)
            fused = fuse_block(
                from_table(block_rows(*hits, unit)), len(block.questions), self._settings.fusion_k
            )
            passages = {
                fetched.passage.passage_id: fetched.passage
                for part in self._passes.passages.all_parts(batch)
                for fetched in FetchedPassage.rows(block_rows(*part, unit))
            }
            report = write_block(block, fused, passages, self._step.run)

            times = add_times([self._passes.times(place, self._asked), timer.counts()])
            spans = {name: getattr(times, name) for name in TIMES}
            self._step.reports.write(replace(report, counts=replace(report.counts, **spans)))
            meter.add(len(block.questions))


def write_block(
    block: Block, fused: Sequence[Sequence[Fused]], passages: Mapping[str, Passage], run: Path
) -> Report[RetrieveCounts]:
    """Write a block's questions and hits; return the unit's report."""
    with QUESTIONS.writer(run, block.number) as questions, RETRIEVED.writer(run, block.number) as retrieved:
        questions.write(block.questions)
        for question, ranked in zip(block.questions, fused, strict=True):
            retrieved.write(
                [to_hit(question, rank, hit, passages[hit.passage_id]) for rank, hit in enumerate(ranked, 1)]
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

    return Report(block.number, {QUESTIONS.name: questions.parts, RETRIEVED.name: retrieved.parts}, counts)
