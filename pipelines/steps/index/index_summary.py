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

    rates = {time.work: per_second(items, seconds) for time, seconds, items in counts.times() if items}
    work = {"BM25": "BM25", "dense vectors": "dense"}
    passages = [f"{name} {rates[key]} passages/s" for key, name in work.items() if key in rates]
    clauses += [", ".join(passages)] if passages else []

    def rate(work: str) -> str:
        return f", {rates[work]}/s" if work in rates else ""

    if counts.answers:
        cut = f"{counts.answers_cut:,} of them cut"
        clauses.append(f"{counts.answers:,} answers as bits, {cut}{rate('codes of sentences')}")

    if counts.sentence_vectors:
        vectors = counted(counts.sentence_vectors, "sentence vector")
        clauses.append(f"{vectors}{rate('sentence vectors')}")

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


def per_second(items: int, seconds: float) -> str:
    """'1,234': items a second, for people."""
    return f"{items / seconds:,.0f}"
