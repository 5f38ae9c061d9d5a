"""Retrieval for a block of questions in this process, by the functions of the step's passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.lucene.analyzers import ENGLISH
from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.rank_fusion import Fused
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.steps.retrieve.asked_questions import Block, scoring_of
from answermill.pipelines.steps.retrieve.feedback import (
    expand,
    feedback_of,
    first_passages,
    first_settings,
    with_words,
)
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
    block: Block,
    shards: Sequence[Shard],
    encoder: Encoder | None,
    settings: Retrieve,
    width: VectorSearch,
    *,
    language: str = ENGLISH,
) -> Iterator[list[Hit]]:
    """The hits of each question of a block, best first. `encoder`: None where no dense index is searched;
    `width`: of its search. `language`: that of the shards' words."""
    vectors = encode(block, encoder) if encoder is not None else None
    statistics = GlobalStatistics()
    if "bm25" in settings.sources:
        statistics = sum(
            (shard.bm25.share(block.texts, scoring_of(settings)) for shard in shards), statistics
        )

    bags = None
    if settings.rm3 is not None:
        statistics, bags = _expanded(block, shards, statistics, settings, language)
    lists = [
        by_question(
            search(shard, number, block, vectors, statistics, settings=settings, width=width, bags=bags)
        )
        for number, shard in enumerate(shards)
    ]
    merged = cut_candidates(merge_lists(lists, settings.depth, width), settings.depth, width)
    fused_lists = fuse_block(merged, len(block.questions), settings.fusion_k)

    for question, fused in zip(block.questions, fused_lists, strict=True):
        passages = _passages(fused, shards)
        yield [to_hit(question, rank, hit, passages[hit.passage_id]) for rank, hit in enumerate(fused, 1)]


def _expanded(
    block: Block, shards: Sequence[Shard], statistics: GlobalStatistics, settings: Retrieve, language: str
) -> tuple[GlobalStatistics, list[dict[str, float]]]:
    """The words that RM3 gives each question, with the statistics of all of them."""
    few = first_settings(settings)
    lists = [
        by_question(search(shard, number, block, None, statistics, settings=few))
        for number, shard in enumerate(shards)
    ]
    ranked = fuse_block(merge_lists(lists, few.depth), len(block.questions), few.fusion_k)
    passages = _passages([hit for hits in ranked for hit in hits], shards)
    first = first_passages(ranked, passages, language)

    words = {word: 1.0 for several in first for _, bag in several for word in bag}
    counted = sum((shard.bm25.share([words]) for shard in shards), GlobalStatistics())
    total = with_words(statistics, counted)
    return total, expand(block, first, total, language, feedback_of(settings))


def _passages(fused: Sequence[Fused], shards: Sequence[Shard]) -> dict[str, Passage]:
    """The passages of a question, by id."""
    passages = [
        passage for number, rows in rows_by_shard(fused).items() for passage in shards[number].passages(rows)
    ]
    return {passage.passage_id: passage for passage in passages}
