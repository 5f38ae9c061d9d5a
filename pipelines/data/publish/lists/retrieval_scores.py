"""Retrieval's scores of the sentences of a list, for models that learn from them: the values that they also
read in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

from answermill.pipelines.data.publish.lists.training_lists import TrainingLists
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.blend.score_columns import RETRIEVED, retrieval_columns
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import Candidate, Hit, RankedList

Scores: TypeAlias = dict[str, Any]
"""Name of a score → its value, a float or None."""


def with_scores(lists: TrainingLists, hits: Iterable[Hit]) -> TrainingLists:
    """The lists with the columns of `RETRIEVED`; `hits` in the order of question and rank.

    A score is standardised over all sentences that were retrieved for the question, whether they are in its
    list or not. Rows that were not retrieved have none, and are counted.
    """
    listed = {rows[0].question_id: {row.candidate_id for row in rows} for _, rows in lists.lists}
    scores: dict[str, dict[str, Scores]] = {}
    for (question_id, text), group in groupby(hits, key=lambda hit: (hit.question_id, hit.question)):
        if question_id in listed:
            passages = tuple(Candidate(hit, None, hit.rank - 1) for hit in group)
            known = retrieved_scores(to_sentences(RankedList(Question(question_id, text), passages)))
            scores[question_id] = {name: known[name] for name in listed[question_id] & known.keys()}

    counts = lists.counts.copy()
    scored = []
    for split, rows in lists.lists:
        own: Mapping[str, Scores] = scores.get(rows[0].question_id, {})
        counts["rows_without_retrieval_scores"] += sum(row.candidate_id not in own for row in rows)
        scored.append((split, [replace(row, **own.get(row.candidate_id, {})) for row in rows]))

    return TrainingLists(scored, counts)


def retrieved_scores(ranked: RankedList) -> dict[str, Scores]:
    """candidate_id → its columns of `RETRIEVED`, of a whole list in its original order; candidates with no
    score at all are left out."""
    columns = retrieval_columns(ranked)
    rows = ({name: columns[name][n] for name in RETRIEVED} for n in range(len(ranked.candidates)))
    scores = {candidate.candidate_id: row for candidate, row in zip(ranked.candidates, rows, strict=True)}
    return {key: row for key, row in scores.items() if any(value is not None for value in row.values())}
