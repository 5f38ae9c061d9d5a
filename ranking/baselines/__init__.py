"""Rerankers without training: word overlap, cosine similarity, completeness of a sentence."""

from __future__ import annotations

from ranking.entry import Entry

ENTRIES = (
    Entry("complete", "ranking.baselines.complete:Complete"),
    Entry("overlap", "ranking.baselines.overlap:Overlap"),
    Entry("similarity", "ranking.baselines.similarity:Similarity", uses_encoder=True),
)
