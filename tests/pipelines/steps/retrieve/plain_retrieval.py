"""Retrieval by a plain loop in memory, without passes, batches, blocks, parts or merging: what all of these
must not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from answermill.indexing.shards.lucene.bm25 import contents_of, words_of
from answermill.indexing.shards.lucene.feedback import Feedback, candidate_words, expanded
from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.shard import Shard
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.steps.models import passage_encoder
from answermill.pipelines.steps.retrieve.asked_questions import scoring_of, settings_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Hit

Ranked = Mapping[str, tuple[float, int]]
"""Passage id → (score, rank from 1)."""


def hits(job: Job, run: Path, questions: Sequence[Question]) -> list[Hit]:
    """The rows of retrieved/ for these questions."""
    settings, texts = settings_of(job), [question.text for question in questions]
    shards = RunShards.of(job, run)
    passages: dict[str, Passage] = {}

    with ExitStack() as stack:
        opened = [stack.enter_context(shards.open(number)) for number in range(shards.count)]
        for shard in opened:
            passages |= {passage.passage_id: passage for passage in shard.passages(range(shard.rows))}
        returned: dict[str, list[list[tuple[float, str]]]] = {}

        for source in settings.sources:
            returned[source] = [[] for _ in texts]
            total = sum(
                (shard.bm25.share(texts, scoring_of(settings)) for shard in opened), GlobalStatistics()
            )
            vectors = passage_encoder(job).encode_questions(texts) if source == "dense" else None
            for shard in opened:
                if vectors is None and settings.rm3 is not None:
                    results = shard.bm25.search(with_feedback(job, shard, texts), settings.depth, None)
                elif vectors is None:
                    results = shard.bm25.search(texts, settings.depth, total, scoring_of(settings))
                else:
                    results = shard.dense.search(vectors, settings.depth)
                for n, (rows, scores) in enumerate(results):
                    returned[source][n] += zip(scores.tolist(), shard.passage_ids(rows), strict=True)

    results = []
    for n, question in enumerate(questions):
        ranked = {source: best(lists[n], settings.depth) for source, lists in returned.items()}
        results += fused(question, ranked, settings.fusion_k, passages)

    return results


def with_feedback(job: Job, shard: Shard, texts: Sequence[str]) -> list[dict[str, float]]:
    """The questions as RM3's weighted words, by the one shard of a run."""
    settings = settings_of(job)
    assert settings.rm3 is not None
    bags = []
    for text, (rows, scores) in zip(
        texts, shard.bm25.search(texts, shard.rows, None, scoring_of(settings)), strict=True
    ):
        ranked = best(list(zip(scores.tolist(), shard.passage_ids(rows), strict=True)), settings.rm3.passages)
        passages = {passage.passage_id: passage for passage in shard.passages(rows)}
        first = []
        for passage_id, (score, _) in ranked.items():
            passage = passages[passage_id]
            (words,) = words_of([contents_of(passage.title, passage.text)])
            first.append((score, candidate_words(words)))
        (question,) = words_of([text])
        frequencies = shard.bm25.document_frequencies([{word: 1.0 for _, bag in first for word in bag}])
        documents = shard.bm25.statistics().documents
        feedback = Feedback(settings.rm3.passages, settings.rm3.words, settings.rm3.question_weight)
        bags.append(expanded(question, first, frequencies, documents, feedback))
    return bags


def best(scored: Sequence[tuple[float, str]], depth: int) -> Ranked:
    order = sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:depth]
    return {passage_id: (score, rank) for rank, (score, passage_id) in enumerate(order, 1)}


def fused(
    question: Question, ranked: Mapping[str, Ranked], k: int, passages: Mapping[str, Passage]
) -> list[Hit]:
    ids = {passage_id for of_source in ranked.values() for passage_id in of_source}
    scores = {
        passage_id: sum(
            1 / (k + ranked[source][passage_id][1])
            for source in sorted(ranked)
            if passage_id in ranked[source]
        )
        for passage_id in ids
    }

    bm25, dense = ranked.get("bm25", {}), ranked.get("dense", {})
    return [
        Hit(
            question.question_id,
            question.text,
            rank,
            scores[passage_id],
            *bm25.get(passage_id, (None, None)),
            *dense.get(passage_id, (None, None)),
            passages[passage_id],
        )
        for rank, passage_id in enumerate(sorted(ids, key=lambda each: (-scores[each], each)), 1)
    ]
