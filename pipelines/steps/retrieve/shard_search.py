"""Search of a shard for a batch of questions: the shard's words are counted and the questions encoded, then
each index of the shard returns its best for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from answermill.indexing.shards.bm25 import GlobalStatistics, ShardSize
from answermill.indexing.shards.vectors.vector_kinds import FLAT
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.parquet_folder import PartWriter, read_batches
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.specs.retrieve import PassCounts
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import device_of, passage_encoder, vector_search
from answermill.pipelines.steps.retrieve.asked_questions import (
    AskedQuestions,
    Block,
    scoring_of,
    settings_of,
)
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
from answermill.schemas.record import Record, column, record


@record
class WordCount(Record):
    """Number of passages in which a word of the questions occurs."""

    word: str = column(pa.string(), "as Lucene's analyser gives it; after a tab, one of titles")
    passages: int = column(pa.int64(), "passages that hold it")


class CountWords(UnitWork):
    """The number of a shard → its size, and the number of its passages that have each word of the
    questions."""

    def __init__(self, target: Pass, asked: AskedQuestions, shards: RunShards) -> None:
        super().__init__(target.step.name, target.step.work, PassCounts)
        self._target, self._asked, self._shards = target, asked, shards

    def work(self, unit: int) -> None:
        timer, target, frequencies = Timer(), self._target, dict[str, int]()
        writer = PartWriter(target.folder, WordCount, unit)
        scoring = scoring_of(settings_of(self._shards.job))

        with Meter(target.step.work, unit) as meter, self._shards.open(unit) as shard:
            with timer.on("bm25"):
                size = asdict(shard.bm25.statistics())
            for block in self._asked.read(self._asked.blocks):
                with timer.on("bm25"):
                    frequencies.update(shard.bm25.document_frequencies(block.texts, scoring))
                meter.add(len(block.questions))

            with writer:
                writer.write([WordCount(word, frequencies[word]) for word in sorted(frequencies)])
            counts = PassCounts(**size) + timer.counts()
            target.write(unit, writer.parts, counts)


def read_statistics(words: Pass) -> GlobalStatistics:
    """The sum over all shards. With it, each shard's BM25 scores are those of one index over everything.

    Raises RuntimeError if two shards were asked for different words.
    """
    size, names, passages = PassCounts(), pa.array([], pa.string()), np.empty(0, np.int64)
    for report in words.reports(range(words.units)):
        size += report.counts
        (part,) = report.parts[words.folder.name]
        batches = read_batches(words.folder, part, rows=65_536)
        table = pa.Table.from_batches(batches, WordCount.schema()).combine_chunks()

        # All shards have the same words, in the same order: numbers are added without looking up words.
        if report.unit == 0:
            names, passages = table["word"], np.zeros(len(table), np.int64)
        if not table["word"].equals(names):
            raise RuntimeError(f"shard {report.unit} has counted other words than shard 0")
        passages += table["passages"].to_numpy()

    counted = ShardSize(size.documents, size.tokens, size.titles, size.title_tokens)
    return GlobalStatistics(counted, dict(zip(names.to_pylist(), passages.tolist(), strict=True)))


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
        target, (batch, number) = self._target, divmod(unit, self._shards.count)
        if self._statistics is None:  # not in `load`, which an engine may call before the words are counted
            self._statistics = read_statistics(self._words) if self._words is not None else GlobalStatistics()
        width, device = vector_search(self._shards.job, self._settings.depth), self._device()
        timer = Timer(device == "cuda")
        writer = PartWriter(target.folder, ShardHit, unit, ROWS_PER_GROUP)

        with Meter(target.step.work, unit) as meter:
            with self._shards.open(number, device=device) as shard, writer:
                for place, group in enumerate(self._asked.batch(batch)):
                    if place:
                        writer.begin_part()
                    for block, vectors in self._blocks(group):
                        best = search(
                            shard,
                            number,
                            block,
                            vectors,
                            self._statistics,
                            settings=self._settings,
                            width=width,
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

    def _blocks(self, group: int) -> Iterator[tuple[Block, QuestionVectors | None]]:
        """The blocks of a group with their vectors; None if the dense index is not searched."""
        blocks = self._asked.read(self._asked.group(group))
        if self._vector_parts is None:
            yield from ((block, None) for block in blocks)
            return
        (part,) = self._vector_parts.parts([group])
        for block, (_, table) in zip(blocks, by_block(part), strict=True):
            yield block, QuestionVectors.of_table(table)
