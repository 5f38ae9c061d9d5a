"""Search of a shard for a batch of questions: the questions are encoded, then each index of the shard returns
its best for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

from answermill.indexing.shards.bm25 import GlobalStatistics
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import passage_encoder
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions
from answermill.pipelines.steps.retrieve.block_order import by_block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, PlacedPart, Timer
from answermill.pipelines.steps.retrieve.shard_hits import (
    ROWS_PER_GROUP,
    QuestionVector,
    QuestionVectors,
    ShardHit,
    by_question,
    encode,
    search,
    to_table,
)
from answermill.pipelines.steps.retrieve.word_counts import read_statistics

VECTORS = "vectors"


class EncodeQuestions(ModelWork):
    """The number of some blocks → their questions' vectors."""

    def __init__(self, target: Pass, asked: AskedQuestions, job: Job) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._job = target, asked, job

    def load(self) -> None:
        self._encoder = passage_encoder(self._job)

    def work(self, unit: int) -> None:
        timer, target = Timer(), self._target
        writer = PartWriter(target.step.run / target.folder, QuestionVector, unit)
        with Meter(target.step.work, unit) as meter:
            with writer, timer.on("dense"):
                for block in self._asked.read(self._asked.encoding(unit)):
                    writer.write_table(encode(block, self._encoder).table(block.number))
                    meter.add(len(block.questions))
            target.write(
                unit, {target.folder: writer.parts}, PassCounts(rows=writer.part.rows) + timer.counts()
            )


def read_vectors(parts: Iterable[PlacedPart]) -> Iterator[QuestionVectors]:
    """The vectors of the blocks in these parts, one block after the other."""
    for folder, part in parts:
        for _, table in by_block(folder, part):
            yield QuestionVectors.of_table(table)


class SearchShard(ModelWork):
    """The number of a batch and a shard → the best of the shard for each question of the batch.

    `words` and `vectors` are the passes before it; None where the index that needs them is not searched.
    """

    def __init__(
        self,
        target: Pass,
        asked: AskedQuestions,
        shards: RunShards,
        settings: Retrieve,
        *,
        words: Pass | None,
        vectors: Pass | None,
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards, self._settings = target, asked, shards, settings
        self._words, self._vector_parts = words, vectors

    def load(self) -> None:
        self._statistics: GlobalStatistics | None = None

    def work(self, unit: int) -> None:
        timer, target, (batch, number) = Timer(), self._target, divmod(unit, self._target.in_batch)
        if self._statistics is None:  # not in `load`, which an engine may call before the words are counted
            self._statistics = read_statistics(self._words) if self._words is not None else GlobalStatistics()
        places = self._asked.batch(batch)
        writer = PartWriter(target.step.run / target.folder, ShardHit, unit, ROWS_PER_GROUP)

        with Meter(target.step.work, unit) as meter:
            with self._shards.open(number) as shard, writer:
                for block, vectors in zip(
                    self._asked.read(places), self._vectors(batch, len(places)), strict=True
                ):
                    best = search(
                        shard,
                        number,
                        block,
                        vectors,
                        self._statistics,
                        settings=self._settings,
                        timed=timer.on,
                    )
                    writer.write_table(to_table(block.number, by_question(best)))
                    meter.add(len(block.questions))

            target.write(
                unit, {target.folder: writer.parts}, PassCounts(rows=writer.part.rows) + timer.counts()
            )

    def _vectors(self, batch: int, blocks: int) -> Iterable[QuestionVectors | None]:
        """Vectors of each block of a batch; None if the dense index is not searched."""
        if self._vector_parts is None:
            return repeat(None, blocks)
        return read_vectors(self._vector_parts.parts(batch, range(len(self._asked.encodings_of(batch)))))
