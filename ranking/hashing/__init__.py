"""Hashing-based answer selection (HAS): binary answer matrices."""

from __future__ import annotations

from ranking.entry import ContextStage, Entry
from ranking.hashing.triplet_settings import TRAINING

ENTRIES = (
    Entry(
        "hashing",
        "ranking.hashing.hashing:Hashing",
        settings=ContextStage,
        checkpoint="hashing",
        training=TRAINING,
        sentence_codes="ranking.hashing.hashing:AnswerCoder",
    ),
)
