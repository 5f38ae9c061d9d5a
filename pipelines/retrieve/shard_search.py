"""A batch of questions meets a shard: the questions are encoded, then each index of the shard returns its best for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexing.shards.bm25 import GlobalStatistics
from indexing.shards.dense import Encoder
from indexing.shards.fusion import Best, merge
from indexing.shards.shard import Shard
from indexing.shards.shard_files import ShardDamaged, what_to_do
from pipelines.config.job_file import Job, Retrieve
from pipelines.execution.meter import Meter
from pipelines.execution.parquet_folder import PartWriter
from pipelines.retrieve.asked_questions import AskedQuestions, Block
from pipelines.retrieve.block_order import by_block
from pipelines.retrieve.open_shards import RunShards
from pipelines.retrieve.passes import Pass, PlacedPart
from pipelines.retrieve.shard_hits import ROWS_PER_GROUP, SOURCES, ShardHit, to_table
from pipelines.retrieve.word_counts import read_statistics
from pipelines.steps.models import ModelDoFn, passage_encoder
from schemas.record import Record, column, record

VECTORS = "vectors"
Vectors: TypeAlias = npt.NDArray[np.float32]


@record
class QuestionVector(Record):
    """A question's vector. Rows are in the order of the questions."""

    block: int = column(pa.int32(), "number of the question's block")
    encoder: str = column(pa.string(), "fingerprint of the encoder")
    vector: tuple[float, ...] = column(pa.list_(pa.field("element", pa.float32(), nullable=False)), "the vector")


@dataclass(frozen=True, slots=True)
class QuestionVectors:
    """A block's questions as vectors [questions, d], and the fingerprint of the encoder that made them."""

    vectors: Vectors
    encoder: str

    def table(self, block: int) -> pa.Table:
        """As rows of the block."""
        questions, dimension = self.vectors.shape
        ends = pa.array(np.arange(0, questions * dimension + 1, dimension, dtype=np.int32))
        vectors = pa.ListArray.from_arrays(
            ends, pa.array(self.vectors.ravel()), type=QuestionVector.schema().field("vector").type
        )
        columns = [pa.array(np.full(questions, block, np.int32)), pa.array([self.encoder] * questions), vectors]
        return pa.Table.from_arrays(columns, schema=QuestionVector.schema())

    @classmethod
    def of_table(cls, table: pa.Table) -> QuestionVectors:
        """What the rows of a block say."""
        values = table["vector"].combine_chunks().flatten().to_numpy()
        return cls(values.reshape(len(table), -1), table["encoder"][0].as_py())


class EncodeQuestions(ModelDoFn):
    """The number of some blocks → their questions' vectors."""

    def __init__(self, target: Pass, asked: AskedQuestions, job: Job) -> None:
        super().__init__(target.step.name, target.step.work)
        self._target, self._asked, self._job = target, asked, job

    def load(self) -> None:
        self._encoder = passage_encoder(self._job)

    def work(self, unit: int) -> None:
        target = self._target
        writer = PartWriter(target.step.run / target.folder, QuestionVector, unit)
        with Meter(target.step.work, unit) as meter:
            with writer:
                for block in self._asked.read(self._asked.encoding(unit)):
                    writer.write_table(encode(block, self._encoder).table(block.number))
                    meter.add(len(block.questions))
            target.write(unit, {target.folder: writer.parts}, {"rows": writer.part.rows})


def encode(block: Block, encoder: Encoder) -> QuestionVectors:
    """The vectors of a block's questions."""
    return QuestionVectors(encoder.encode_questions(block.texts), encoder.fingerprint)


def read_vectors(parts: Iterable[PlacedPart]) -> Iterator[QuestionVectors]:
    """The vectors of the blocks in these parts, one block after the other."""
    for folder, part in parts:
        for _, table in by_block(folder, part):
            yield QuestionVectors.of_table(table)


class SearchShard(ModelDoFn):
    """The number of a batch and a shard → the best of the shard for each question of the batch.

    `words` and `vectors` are the passes before it; None where the index that needs them is not searched.
    """

    def __init__(
        self,
        target: Pass,
        asked: AskedQuestions,
        shards: RunShards,
        settings: Retrieve,
        words: Pass | None,
        vectors: Pass | None,
    ) -> None:
        super().__init__(target.step.name, target.step.work)
        self._target, self._asked, self._shards, self._settings = target, asked, shards, settings
        self._words, self._vector_parts = words, vectors

    def load(self) -> None:
        self._statistics: GlobalStatistics | None = None

    def work(self, unit: int) -> None:
        target, (batch, number) = self._target, divmod(unit, self._target.in_batch)
        if self._statistics is None:  # not in `load`, which an engine may call before the words are counted
            self._statistics = read_statistics(self._words) if self._words is not None else GlobalStatistics()
        places = self._asked.batch(batch)
        writer = PartWriter(target.step.run / target.folder, ShardHit, unit, ROWS_PER_GROUP)
        with Meter(target.step.work, unit) as meter:
            with self._shards.open(number) as shard, writer:
                for block, vectors in zip(self._asked.read(places), self._vectors(batch, len(places)), strict=True):
                    best = search(shard, number, block, vectors, self._statistics, self._settings)
                    writer.write_table(to_table(block.number, by_question(best)))
                    meter.add(len(block.questions))
            target.write(unit, {target.folder: writer.parts}, {"rows": writer.part.rows})

    def _vectors(self, batch: int, blocks: int) -> Iterable[QuestionVectors | None]:
        """Of each block of a batch."""
        if self._vector_parts is None:
            return repeat(None, blocks)
        return read_vectors(self._vector_parts.parts(batch, range(len(self._asked.encodings_of(batch)))))


BlockHits: TypeAlias = dict[str, list[Best]]
"""Source → the best passages of each question of a block."""


def by_question(hits: BlockHits) -> dict[tuple[int, int], Best]:
    """The lists that have passages, by the question's place in the block and the source's in SOURCES."""
    return {
        (question, SOURCES.index(source)): best
        for source, bests in hits.items()
        for question, best in enumerate(bests)
        if len(best)
    }


def search(
    shard: Shard,
    number: int,
    block: Block,
    vectors: QuestionVectors | None,
    statistics: GlobalStatistics,
    settings: Retrieve,
) -> BlockHits:
    """One shard's best `depth` for each question of a block, by each source. Raises ShardMismatch if another encoder built it,
    ShardDamaged if a score is not finite."""
    hits = {}
    if "bm25" in settings.sources:
        hits["bm25"] = shard.bm25.search(block.texts, settings.depth, statistics)
    if vectors is not None:
        shard.check_encoder(vectors.encoder)
        hits["dense"] = shard.dense.search(vectors.vectors, settings.depth)
    for source, best in hits.items():
        for question, (_, scores) in zip(block.questions, best, strict=True):
            if not np.isfinite(scores).all():
                raise ShardDamaged(
                    f"{shard.folder}: {source} gives question {question.question_id} a score that is NaN or infinite; "
                    f"{what_to_do(shard.folder)}"
                )
    return {
        source: [merge([Best.of(number, rows, shard.passage_ids(rows), scores)], settings.depth) for rows, scores in best]
        for source, best in hits.items()
    }
