"""Search of a shard for a batch of questions: the shard's words are counted and the questions encoded, then
each index of the shard returns its best for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.vectors.vector_kinds import EXACT, FLAT, VectorSearch
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import device_of, passage_encoder
from answermill.pipelines.steps.retrieve.asked_questions import (
    AskedQuestions,
    Block,
    scoring_of,
    settings_of,
)
from answermill.pipelines.steps.retrieve.feedback import Expansions
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import Pass, Timer, by_block
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
from answermill.pipelines.steps.retrieve.word_counts import read_statistics, write_counts


class CountWords(UnitWork):
    """The number of a shard → its size, and the number of its passages that have each word of the
    questions."""

    def __init__(self, target: Pass, asked: AskedQuestions, shards: RunShards) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards = target, asked, shards

    def work(self, unit: int) -> None:
        timer, target, frequencies = Timer(), self._target, dict[str, int]()
        scoring = scoring_of(settings_of(self._shards.job))

        with Meter(target.step.work, unit) as meter, self._shards.open(unit) as shard:
            with timer.on("bm25"):
                size = asdict(shard.bm25.statistics())
            for block in self._asked.read(self._asked.blocks):
                with timer.on("bm25"):
                    frequencies.update(shard.bm25.document_frequencies(block.texts, scoring))
                meter.add(len(block.questions))

            write_counts(target, unit, frequencies, PassCounts(**size) + timer.counts())


class EncodeQuestions(ModelWork):
    """The number of a group → its questions' vectors."""

    def __init__(self, target: Pass, asked: AskedQuestions, job: Job) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._job = target, asked, job

    def load(self) -> None:
        self._encoder = passage_encoder(self._job)

    def work(self, unit: int) -> None:
        timer, target = Timer(device_of(self._job.workers.device) == "cuda"), self._target
        writer = PartWriter(target.folder, QuestionVector, unit)
        with Meter(target.step.work, unit) as meter:
            with writer, timer.on("dense"):
                for block in self._asked.read(self._asked.group(unit)):
                    writer.write_table(encode(block, self._encoder).table(block.number))
                    meter.add(len(block.questions))
            target.write(unit, writer.parts, timer.counts())


class SearchShard(ModelWork):
    """The number of a batch and a shard → the best of the shard for each question of the batch, in a part for
    each group.

    `words` and `vectors` are the passes before it; None where the index that needs them is not searched.
    `width`: of the dense index. `feedback`: those of RM3, of the first passages' words and of their counts;
    None without it.
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
        width: VectorSearch = EXACT,
        feedback: tuple[Pass, Pass] | None = None,
    ) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards, self._settings = target, asked, shards, settings
        self._words, self._vector_parts, self._feedback = words, vectors, feedback
        self._width = width

    def load(self) -> None:
        self._statistics: GlobalStatistics | None = None
        self._expansions: Expansions | None = None

    def work(self, unit: int) -> None:
        target, (batch, number) = self._target, divmod(unit, self._shards.count)
        if self._statistics is None:  # not in `load`, which an engine may call before the words are counted
            self._statistics = read_statistics(self._words) if self._words is not None else GlobalStatistics()
            if self._feedback is not None:
                job, settings = self._shards.job, self._settings
                self._expansions = Expansions(job, settings, self._statistics, *self._feedback)
                self._statistics = self._expansions.statistics
        device = self._device()
        timer = Timer(device == "cuda")
        writer = PartWriter(target.folder, ShardHit, unit, ROWS_PER_GROUP)

        with Meter(target.step.work, unit) as meter:
            with self._shards.open(number, device=device) as shard, writer:
                for place, group in enumerate(self._asked.batch(batch)):
                    if place:
                        writer.begin_part()
                    for block, vectors, bags in self._blocks(group):
                        best = search(
                            shard,
                            number,
                            block,
                            vectors,
                            self._statistics,
                            settings=self._settings,
                            width=self._width,
                            bags=bags,
                            timed=timer.on,
                        )
                        writer.write_table(to_table(block.number, by_question(best)))
                        meter.add(len(block.questions))

            target.write(unit, writer.parts, timer.counts())

    def _device(self) -> str:
        """Device of the search of the dense index: the models' if it is exact."""
        job = self._shards.job
        searches = self._vector_parts is not None and job.index.vectors == FLAT
        return device_of(job.workers.device) if searches else "cpu"

    def _blocks(
        self, group: int
    ) -> Iterator[tuple[Block, QuestionVectors | None, list[dict[str, float]] | None]]:
        """The blocks of a group with their vectors, None if the dense index is not searched, and the weighted
        words of RM3, None without it."""
        blocks = list(self._asked.read(self._asked.group(group)))
        vectors: list[QuestionVectors | None] = [None] * len(blocks)
        if self._vector_parts is not None:
            (part,) = self._vector_parts.parts([group])
            vectors = [QuestionVectors.of_table(table) for _, table in by_block(part)]
        if self._expansions is None:
            yield from ((block, own, None) for block, own in zip(blocks, vectors, strict=True))
        else:
            yield from zip(blocks, vectors, self._expansions.bags(group, blocks), strict=True)
