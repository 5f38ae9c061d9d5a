"""Hashing-based answer selection (HAS): binary answer matrices."""

from __future__ import annotations

from pydantic import Field

from answermill.ranking.entry import ContextStage, Entry
from answermill.ranking.rerankers.hashing.triplet_settings import TRAINING


class HashingStage(ContextStage):
    """A stage of `hashing`."""

    stored: bool = Field(
        True,
        description="whether `index` stores the bits of every sentence, so that `rerank` encodes questions "
        "only (variant has); "
        "if not, `rerank` encodes the sentences that come to the stage",
    )


ENTRIES = (
    Entry(
        "hashing",
        "answermill.ranking.rerankers.hashing.hashing:Hashing",
        settings=HashingStage,
        checkpoint="hashing",
        training=TRAINING,
        sentence_codes="answermill.ranking.rerankers.hashing.hashing:AnswerCoder",
    ),
)
