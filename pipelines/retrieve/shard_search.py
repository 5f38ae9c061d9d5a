"""The work of retrieval on blocks of questions and shards: count words, encode, search, merge, fuse, fetch, write.

What a DoFn here does is a plain function; the DoFn holds what its worker keeps between elements: open shards, the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from indexing.shards.bm25 import GlobalStatistics
from indexing.shards.dense import Encoder
from indexing.shards.fusion import Best, Fused, fuse, merge
from indexing.shards.shard import Shard
from indexing.shards.shard_files import ShardDamaged, what_to_do
from pipelines.config.job_file import Job, Retrieve
from pipelines.execution.manifests.reports import Report
from pipelines.execution.meter import Meter
from pipelines.execution.parquet_folder import PartWriter
from pipelines.execution.step import Step
from pipelines.execution.unit_dofn import UnitDoFn
from pipelines.retrieve.open_shards import OPEN_TO_FETCH, OpenShards, ShardPlace
from pipelines.steps.models import ModelDoFn, passage_encoder
from schemas.corpus import Passage, Question
from schemas.ranked import Hit

SOURCES = ("bm25", "dense")
BLOCKS_PER_SEARCH = 16
Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Block:
    """One unit of work: some questions."""

    number: int
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.questions]


@dataclass(frozen=True, slots=True)
class QuestionVectors:
    """A block's questions as vectors [questions, d], and the fingerprint of the encoder that made them."""

    vectors: Vectors
    encoder: str


BlockHits: TypeAlias = dict[str, list[Best]]
"""Source → the best passages of each question of a block."""


class CountWords(UnitDoFn):
    """(number, place) of a shard → how big it is and how often the questions' words occur in it."""

    skips_reported = False

    def __init__(self, blocks: Sequence[Block], job: Job, settings: Retrieve, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._texts = [text for block in blocks for text in block.texts] if "bm25" in settings.sources else []
        self._questions = sum(len(block.questions) for block in blocks)
        self._open = OpenShards(job)

    def load(self) -> None:
        self._done = Meter(self._work_folder, 0)

    def work(self, number: int, shard: ShardPlace) -> Iterator[GlobalStatistics]:
        if self._texts:
            yield self._open(shard).bm25.share(self._texts)
        self._done.add(self._questions)


def add(shares: Iterable[GlobalStatistics]) -> GlobalStatistics:
    """The sum; `GlobalStatistics()` of no shard."""
    return sum(shares, GlobalStatistics())


class EncodeQuestions(ModelDoFn):
    """A block → its number and its questions' vectors, or None if the dense index is not searched."""

    skips_reported = False

    def __init__(self, job: Job, settings: Retrieve, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._job, self._dense = job, "dense" in settings.sources

    def load(self) -> None:
        self._encoder = passage_encoder(self._job) if self._dense else None

    def work(self, number: int, block: Block) -> Iterator[tuple[int, QuestionVectors | None]]:
        yield number, encode(block, self._encoder) if self._encoder else None


def encode(block: Block, encoder: Encoder) -> QuestionVectors:
    """The vectors of a block's questions."""
    return QuestionVectors(encoder.encode_questions(block.texts), encoder.fingerprint)


class Search(ModelDoFn):
    """Some blocks in one shard → for each (block number, the best of the shard for each question).

    An element holds up to 16 blocks, so that a shard is opened once for many questions.
    """

    skips_reported = False

    def __init__(self, blocks: Sequence[Block], job: Job, settings: Retrieve, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._blocks, self._settings = list(blocks), settings
        self._open = OpenShards(job)

    def load(self) -> None:
        self._done = Meter(self._work_folder, 0)

    def work(
        self,
        number: int,
        shard: ShardPlace,
        first: int,
        statistics: GlobalStatistics,
        vectors: Mapping[int, QuestionVectors | None],
    ) -> Iterator[tuple[int, BlockHits]]:
        for block in self._blocks[first : first + BLOCKS_PER_SEARCH]:
            yield block.number, search(self._open(shard), number, block, vectors[block.number], statistics, self._settings)
            self._done.add(len(block.questions))


def search(
    shard: Shard,
    number: int,
    block: Block,
    vectors: QuestionVectors | None,
    statistics: GlobalStatistics,
    settings: Retrieve,
) -> BlockHits:
    """One shard's best for each question of a block, by each source. Raises ShardMismatch if another encoder built it,
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
        source: [Best.of(number, rows, shard.passage_ids(rows), scores) for rows, scores in best]
        for source, best in hits.items()
    }


def look_ups(blocks: Sequence[Block], shards: int) -> int:
    """What progress counts: each question is looked up twice in each shard, its words and its passages, and then written."""
    return sum(len(block.questions) for block in blocks) * (2 * shards + 1)


class MergeShards:
    """Joins the hits of several shards for one block; takes its own results again, in any order and grouping."""

    def __init__(self, depth: int) -> None:
        self._depth = depth

    def __call__(self, parts: Iterable[BlockHits]) -> BlockHits:
        parts = list(parts)
        sources = parts[0].keys() if parts else ()
        return {
            source: [merge(bests, self._depth) for bests in zip(*(part[source] for part in parts), strict=True)]
            for source in sources
        }


class FuseAndFetch(UnitDoFn):
    """(block number, the best of all shards) → parts of questions/ and retrieved/; and the unit's report."""

    def __init__(self, blocks: Sequence[Block], shards: Sequence[ShardPlace], job: Job, settings: Retrieve, step: Step) -> None:
        super().__init__(step.name, step.work)
        self._blocks = {block.number: block for block in blocks}
        self._shards, self._settings, self._step = list(shards), settings, step
        self._open = OpenShards(job, OPEN_TO_FETCH)

    def load(self) -> None:
        self._done = Meter(self._work_folder, 0)

    def work(self, number: int, hits: BlockHits) -> None:
        block = self._blocks[number]
        fused = [
            fuse({source: best[n] for source, best in hits.items()}, self._settings.fusion_k)
            for n in range(len(block.questions))
        ]
        write_block(block, fused, fetch(fused, lambda number: self._open(self._shards[number])), self._step)
        self._done.add(len(block.questions))


def fetch(fused: Iterable[Sequence[Fused]], shard: Callable[[int], Shard]) -> dict[str, Passage]:
    """The passages of all lists by id, each read once, shard by shard."""
    rows: dict[int, set[int]] = {}
    for one in (one for ranked in fused for one in ranked):
        rows.setdefault(one.shard, set()).add(one.row)
    return {
        passage.passage_id: passage
        for number, of_shard in sorted(rows.items())
        for passage in shard(number).passages(sorted(of_shard))
    }


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


def to_hit(question: Question, rank: int, one: Fused, passage: Passage) -> Hit:
    """The row of retrieved/."""
    bm25, dense = (one.sources.get(source, (None, None)) for source in SOURCES)
    return Hit(
        question_id=question.question_id,
        question=question.text,
        rank=rank,
        fused_score=one.score,
        bm25_score=bm25[0],
        bm25_rank=bm25[1],
        dense_score=dense[0],
        dense_rank=dense[1],
        passage=passage,
    )
