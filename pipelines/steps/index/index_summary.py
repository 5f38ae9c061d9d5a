"""The line for people at the end of `index`."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.errors import counted
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.steps.index import recall
from answermill.pipelines.steps.index.delta import SINCE


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    manifest = SHARDS.open(run).manifest
    counts = INDEX.counts_of(manifest)
    clauses = [
        f"{counted(manifest.rows, 'passage')} in {counted(len(manifest.parts), 'shard')}, "
        f"{counts.bytes / 1e6:,.1f} MB",
        f"BM25 {per_second(manifest.rows, counts.bm25_ms)} passages/s, "
        f"dense {per_second(manifest.rows, counts.dense_ms)} passages/s",
    ]

    if counts.answers:
        cut = f"{counts.answers_cut:,} of them cut"
        clauses.append(
            f"{counts.answers:,} answers as bits, {cut}, {per_second(counts.answers, counts.answers_ms)}/s"
        )

    if counts.sentence_vectors:
        rate = per_second(counts.sentence_vectors, counts.sentence_vectors_ms)
        clauses.append(f"{counted(counts.sentence_vectors, 'sentence vector')}, {rate}/s")

    if counts.recall_questions:
        sentences = counted(counts.recall_questions, "sentence")
        times = f" at {counts.recall_times} × the usual width" if counts.recall_times > 1 else ""
        clauses.append(f"recall@{recall.NEAREST} {counts.recall:.3f} over {sentences}{times}")

    if counts.taken_over:
        clauses.append(
            f"{counted(counts.taken_over, 'passage')} taken over with their shards, "
            f"{counted(counts.tombstones, 'tombstone')}"
        )

    if SINCE in manifest.inputs or counts.vectors_taken_over:
        clauses.append(f"{counted(counts.vectors_taken_over, 'vector')} taken over")
    return f"index      {'; '.join(clauses)}"


def per_second(items: int, milliseconds: int) -> str:
    """'1,234': items a second, for people."""
    return f"{items / (milliseconds / 1000 or 1e-3):,.0f}"
