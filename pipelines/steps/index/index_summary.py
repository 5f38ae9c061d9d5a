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
    ]

    # Rates are of what was computed. How many sentences were taken over with their shards is not counted.
    work = (
        ("BM25", manifest.rows - counts.taken_over, counts.bm25_ms),
        ("dense", manifest.rows - counts.vectors_taken_over, counts.dense_ms),
    )
    rates = [f"{name} {per_second(passages, ms)} passages/s" for name, passages, ms in work if passages]
    clauses += [", ".join(rates)] if rates else []

    if counts.answers:
        rate = "" if counts.taken_over else f", {per_second(counts.answers, counts.answers_ms)}/s"
        clauses.append(f"{counts.answers:,} answers as bits, {counts.answers_cut:,} of them cut{rate}")

    if counts.sentence_vectors:
        vectors, ms = counts.sentence_vectors, counts.sentence_vectors_ms
        rate = "" if counts.taken_over else f", {per_second(vectors, ms)}/s"
        clauses.append(f"{counted(vectors, 'sentence vector')}{rate}")

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
