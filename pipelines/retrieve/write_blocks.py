"""The last pass: a block's lists are fused, and written with their passages to questions/ and retrieved/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indexing.shards.fusion import Fused
from pipelines.config.job_file import Retrieve
from pipelines.execution.manifests.reports import Report
from pipelines.execution.meter import Meter
from pipelines.execution.parquet_folder import PartWriter
from pipelines.execution.step import Step
from pipelines.execution.unit_dofn import UnitDoFn
from pipelines.retrieve.asked_questions import AskedQuestions, Block
from pipelines.retrieve.block_order import of_block
from pipelines.retrieve.fetch_passages import FetchedPassage
from pipelines.retrieve.passes import Pass
from pipelines.retrieve.shard_hits import SOURCES, from_table, fuse_block, to_hit
from schemas.corpus import Passage, Question
from schemas.ranked import Hit


class WriteBlock(UnitDoFn):
    """The number of a block → parts of questions/ and retrieved/; and the unit's report."""

    def __init__(self, hits: Pass, passages: Pass, asked: AskedQuestions, settings: Retrieve, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._hits, self._passages, self._asked = hits, passages, asked
        self._settings, self._step = settings, step

    def work(self, unit: int) -> None:
        place = self._asked.place(unit)
        batch = place // self._asked.blocks_per_batch
        with Meter(self._step.work, unit) as meter:
            (block,) = self._asked.read(range(place, place + 1))
            (hits,) = self._hits.all_parts(batch)
            fused = fuse_block(from_table(of_block(*hits, unit)), len(block.questions), self._settings.fusion_k)
            passages = {
                fetched.passage.passage_id: fetched.passage
                for part in self._passages.all_parts(batch)
                for fetched in FetchedPassage.rows(of_block(*part, unit))
            }
            write_block(block, fused, passages, self._step)
            meter.add(len(block.questions))


def write_block(block: Block, fused: Sequence[Sequence[Fused]], passages: Mapping[str, Passage], step: Step) -> None:
    """Write a block's questions and hits, and report it."""
    questions = PartWriter(step.run / "questions", Question, block.number)
    retrieved = PartWriter(step.run / "retrieved", Hit, block.number)
    with questions, retrieved:
        questions.write(block.questions)
        for question, ranked in zip(block.questions, fused, strict=True):
            retrieved.write([to_hit(question, rank, one, passages[one.passage_id]) for rank, one in enumerate(ranked, 1)])
    counts = {
        "questions": len(block.questions),
        "without_hits": sum(not ranked for ranked in fused),
        "hits": retrieved.part.rows,
        **{source: sum(source in one.sources for ranked in fused for one in ranked) for source in SOURCES},
    }
    step.reports.write(Report(block.number, {"questions": questions.parts, "retrieved": retrieved.parts}, counts))
