"""Retrieval for a block of questions in this process, by the functions of the step's passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answermill.indexing.shards.bm25 import GlobalStatistics
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.rank_fusion import Fused
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.steps.retrieve.asked_questions import Block, scoring_of
from answermill.pipelines.steps.retrieve.shard_hits import (
    by_question,
    cut_candidates,
    encode,
    fuse_block,
    merge_lists,
    rows_by_shard,
    search,
    to_hit,
)
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import Hit


def search_block(
    block: Block, shards: Sequence[Shard], encoder: Encoder | None, settings: Retrieve, width: VectorSearch
) -> Iterator[list[Hit]]:
    """The hits of each question of a block, best first. `encoder`: None where no dense index is searched;
    `width`: of its search."""
    vectors = encode(block, encoder) if encoder is not None else None
    statistics = GlobalStatistics()
    if "bm25" in settings.sources:
        statistics = sum(
            (shard.bm25.share(block.texts, scoring_of(settings)) for shard in shards), statistics
        )

    lists = [
        by_question(search(shard, number, block, vectors, statistics, settings=settings, width=width))
        for number, shard in enumerate(shards)
    ]
    merged = cut_candidates(merge_lists(lists, settings.depth, width), settings.depth, width)
    fused_lists = fuse_block(merged, len(block.questions), settings.fusion_k)

    for question, fused in zip(block.questions, fused_lists, strict=True):
        passages = _passages(fused, shards)
        yield [to_hit(question, rank, hit, passages[hit.passage_id]) for rank, hit in enumerate(fused, 1)]


def _passages(fused: Sequence[Fused], shards: Sequence[Shard]) -> dict[str, Passage]:
    """The passages of a question, by id."""
    passages = [
        passage for number, rows in rows_by_shard(fused).items() for passage in shards[number].passages(rows)
    ]
    return {passage.passage_id: passage for passage in passages}
