"""Retrieve's work on a block of questions in this process: the passes of the step one after the other, by its
functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from answermill.indexing.shards.bm25 import GlobalStatistics
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.rank_fusion import Best, Fused, merge
from answermill.indexing.shards.shard import Shard
from answermill.pipelines.config.job_file import Retrieve
from answermill.pipelines.steps.retrieve.asked_questions import Block
from answermill.pipelines.steps.retrieve.shard_hits import by_question, encode, fuse_block, search, to_hit
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import Hit


def search_block(
    block: Block, shards: Sequence[Shard], encoder: Encoder | None, settings: Retrieve
) -> Iterator[list[Hit]]:
    """The hits of each question of a block, best first. `encoder`: None where no dense index is searched."""
    vectors = encode(block, encoder) if encoder is not None else None
    statistics = GlobalStatistics()
    if "bm25" in settings.sources:
        statistics = sum((shard.bm25.share(block.texts) for shard in shards), statistics)
    lists: dict[tuple[int, int], list[Best]] = {}

    for number, shard in enumerate(shards):
        of_shard = search(shard, number, block, vectors, statistics, settings=settings)
        for key, best in by_question(of_shard).items():
            lists.setdefault(key, []).append(best)

    best_of_all = {key: merge(bests, settings.depth) for key, bests in lists.items()}
    for question, fused in zip(
        block.questions, fuse_block(best_of_all, len(block.questions), settings.fusion_k), strict=True
    ):
        passages = _passages(fused, shards)
        yield [to_hit(question, rank, one, passages[one.passage_id]) for rank, one in enumerate(fused, 1)]


def _passages(fused: Sequence[Fused], shards: Sequence[Shard]) -> dict[str, Passage]:
    """The passages of a question, by id."""
    passages: list[Passage] = []
    for number in sorted({one.shard for one in fused}):
        passages += shards[number].passages(
            np.array([one.row for one in fused if one.shard == number], np.int64)
        )
    return {passage.passage_id: passage for passage in passages}
