"""Hits of a shard's indexes for a block of questions: searched, as rows of a part, merged over shards, and
fused.

Merging is associative, and ties go by id. These are functions without Beam: passes carry them to workers, and
`answermill ask` calls them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.lucene.feedback import Bag
from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.rank_fusion import Best, Fused, candidates, fuse, merge
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import ShardDamaged, ShardMismatch, what_to_do
from answermill.indexing.shards.vectors.coded_index import CodedIndex
from answermill.indexing.shards.vectors.vector_kinds import EXACT, FLAT, VectorSearch
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.steps.retrieve.asked_questions import Block, scoring_of
from answermill.schemas.arrays import Vectors
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Hit
from answermill.schemas.record import Record, column, record
from answermill.schemas.vector_column import VECTOR, from_column, to_column

SOURCES = ("bm25", "dense")
ROWS_PER_GROUP = 16_384
FOLDER = "hits"
Lists = Mapping[tuple[int, int], Best]
"""(place of a question in its block, place of a source in SOURCES) → the best passages."""
BlockHits: TypeAlias = dict[str, list[Best]]
"""Source → the best passages of each question of a block."""


@record
class QuestionVector(Record):
    """A question's vector. Rows are in the order of the questions."""

    block: int = column(pa.int32(), "number of the question's block")
    encoder: str = column(pa.string(), "fingerprint of the encoder")
    vector: tuple[float, ...] = column(VECTOR, "the vector")


@dataclass(frozen=True, slots=True)
class QuestionVectors:
    """A block's questions as vectors [questions, d], and the fingerprint of the encoder that made them."""

    vectors: Vectors
    encoder: str

    def table(self, block: int) -> pa.Table:
        """The vectors as rows of the block."""
        questions = len(self.vectors)
        columns = [
            pa.array(np.full(questions, block, np.int32)),
            pa.array([self.encoder] * questions),
            to_column(self.vectors),
        ]
        return pa.Table.from_arrays(columns, schema=QuestionVector.schema())

    @classmethod
    def of_table(cls, table: pa.Table) -> QuestionVectors:
        """The vectors in the rows of a block."""
        return cls(from_column(table["vector"].combine_chunks()), table["encoder"][0].as_py())


def encode(block: Block, encoder: Encoder) -> QuestionVectors:
    """The vectors of a block's questions."""
    return QuestionVectors(encoder.encode_questions(block.texts), encoder.fingerprint)


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
    *,
    settings: Retrieve,
    width: VectorSearch = EXACT,
    bags: Sequence[Bag] | None = None,
    timed: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> BlockHits:
    """One shard's best `depth` for each question of a block, by each source, whose search runs in the block
    of `timed`; of a dense index that is not exact its candidates, or the first of them, which
    `cut_candidates` cuts. `width`: of that index. `bags`: weighted words that BM25 looks for in place of the
    questions.

    Raises ShardMismatch if another encoder or kind of index built it, ShardDamaged if a score is not
    finite."""
    hits: dict[str, list[Any]] = {}
    if "bm25" in settings.sources:
        with timed("bm25"):
            asked = block.texts if bags is None else bags
            hits["bm25"] = shard.bm25.search(asked, settings.depth, statistics, scoring_of(settings))

    if vectors is not None:
        shard.check_encoder(vectors.encoder)
        with timed("dense"):
            hits["dense"] = _nearest(shard, vectors.vectors, settings.depth, width)

    for source, best in hits.items():
        for question, (_, scores, *_) in zip(block.questions, best, strict=True):
            if not np.isfinite(scores).all():
                raise ShardDamaged(
                    f"{shard.folder}: {source} gives question {question.question_id} a score that is NaN or "
                    "infinite; "
                    f"{what_to_do(shard.folder)}"
                )

    def cut(best: Best, source: str) -> Best:
        is_exact = source != "dense" or not width.candidates
        return merge([best], settings.depth) if is_exact else candidates([best], most)

    most = width.first or width.candidates

    return {
        source: [
            cut(Best.of(number, rows, shard.passage_ids(rows), scores, *values), source)
            for rows, scores, *values in best
        ]
        for source, best in hits.items()
    }


def _nearest(shard: Shard, questions: Vectors, depth: int, width: VectorSearch) -> list[Any]:
    """Rows and scores of a shard's best by its dense index, and values where that is not exact. Raises
    ShardMismatch if it is of another kind than the job's."""
    index = shard.dense
    if isinstance(index, CodedIndex) != (width.candidates > 0):
        kind = shard.coded.kind if shard.coded is not None else FLAT
        raise ShardMismatch(
            f"{shard.folder}: its dense index is {kind}, the job's index.vectors another; give {kind}, "
            f"or {what_to_do(shard.folder)}"
        )
    return index.search(questions, width) if isinstance(index, CodedIndex) else index.search(questions, depth)


@record
class ShardHit(Record):
    """A passage that an index returned for a question. Rows are ordered by block, question, source, and then
    best first."""

    block: int = column(pa.int32(), "number of the question's block")
    question: int = column(pa.int32(), "the question's place in the block, from 0")
    source: int = column(pa.int8(), "0: BM25; 1: the dense index")
    shard: int = column(pa.int32(), "number of the shard, from 0")
    row: int = column(pa.int64(), "the passage's row in the shard")
    passage_id: str = column(pa.string(), "Passage.passage_id")
    score: float = column(pa.float64(), "the index's score")
    value: float = column(
        pa.float64(), "the value by which an index that is not exact chose it; of an exact one the score"
    )


def to_table(block: int, lists: Lists) -> pa.Table:
    """A block's lists as rows."""
    keys = sorted(lists)
    if not keys:
        return ShardHit.schema().empty_table()

    bests = [lists[key] for key in keys]
    sizes = [len(best) for best in bests]
    columns = [
        np.full(sum(sizes), block, np.int32),
        np.repeat(np.array([question for question, _ in keys], np.int32), sizes),
        np.repeat(np.array([source for _, source in keys], np.int8), sizes),
        np.concatenate([best.shards for best in bests]),
        np.concatenate([best.rows for best in bests]),
        pa.array(np.concatenate([best.ids for best in bests])).cast(pa.string()),
        np.concatenate([best.scores for best in bests]),
        np.concatenate([best.values for best in bests]),
    ]

    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=ShardHit.schema())


def from_table(table: pa.Table) -> dict[tuple[int, int], Best]:
    """The lists of a block; those that have no passage are absent."""
    question, source, shard, row, score, value = (
        table[name].to_numpy() for name in ("question", "source", "shard", "row", "score", "value")
    )
    ids = np.array(table["passage_id"].cast(pa.binary()).to_pylist(), np.bytes_)
    key = question.astype(np.int64) * len(SOURCES) + source
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]

    return {
        (int(question[start]), int(source[start])): Best(
            shard[start:end], row[start:end], ids[start:end], score[start:end], value[start:end]
        )
        for start, end in pairwise(edges)
        if start < end
    }


def merge_lists(
    parts: Iterable[Lists], depth: int, width: VectorSearch = EXACT
) -> dict[tuple[int, int], Best]:
    """The best `depth` of each list over some of the shards; of a dense index that is not exact, whose
    `width` this is, its candidates, which `cut_candidates` cuts when all shards are merged."""
    lists: dict[tuple[int, int], list[Best]] = {}
    for part in parts:
        for key, best in part.items():
            lists.setdefault(key, []).append(best)
    return {
        key: candidates(bests, width.candidates) if _has_candidates(key, width) else merge(bests, depth)
        for key, bests in lists.items()
    }


def cut_candidates(lists: Lists, depth: int, width: VectorSearch = EXACT) -> dict[tuple[int, int], Best]:
    """The lists over all shards, with the best `depth` of the candidates, by their exact scores."""
    return {key: merge([best], depth) if _has_candidates(key, width) else best for key, best in lists.items()}


def _has_candidates(key: tuple[int, int], width: VectorSearch) -> bool:
    return width.candidates > 0 and SOURCES[key[1]] == "dense"


def fuse_block(lists: Lists, questions: int, k: int) -> list[list[Fused]]:
    """The fused list of each question of a block."""
    by_source: list[dict[str, Best]] = [{} for _ in range(questions)]
    for (question, source), best in lists.items():
        by_source[question][SOURCES[source]] = best
    return [fuse(sources, k) for sources in by_source]


def rows_by_shard(hits: Iterable[Fused]) -> dict[int, npt.NDArray[np.int64]]:
    """Number of each shard that has some of the hits → their rows in it; both ascend."""
    rows: dict[int, set[int]] = {}
    for hit in hits:
        rows.setdefault(hit.shard, set()).add(hit.row)
    return {shard: np.array(sorted(rows[shard]), np.int64) for shard in sorted(rows)}


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
