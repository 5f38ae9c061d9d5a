"""Hashing-based answer selection (HAS): binary answer matrices."""

from __future__ import annotations

from ranking.entry import Entry

ENTRIES = (
    Entry(
        "hashing",
        "ranking.hashing.hashing:Hashing",
        checkpoint="hashing",
        sentence_codes="ranking.hashing.hashing:AnswerCoder",
    ),
)
