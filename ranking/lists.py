"""Labelled candidates as the ranked lists that rerankers read: a data set goes through the same `rerank` as a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from schemas.corpus import Passage, Question, Sentence
from schemas.labels import LabelledCandidate
from schemas.ranked import Candidate, Hit, RankedList


def ranked_list(candidates: Sequence[LabelledCandidate]) -> RankedList:
    """The candidates of one question, in their original order, as sentences; those of one document are its passage.

    Where the data set does not say the document, each candidate is a passage of its own. Raises ValueError where there is
    no candidate, or where they are of several questions.
    """
    if not candidates or len({c.question_id for c in candidates}) > 1:
        raise ValueError(f"{len(candidates)} candidates of {len({c.question_id for c in candidates})} questions; give one's")
    question = Question(candidates[0].question_id, candidates[0].question)
    made: list[Candidate] = []
    documents = groupby(candidates, key=lambda c: c.doc_id or c.candidate_id)
    for rank, (doc_id, group) in enumerate(documents, 1):
        held = list(group)
        sentences, start = [], 0
        for candidate in held:
            sentences.append(Sentence(candidate.candidate_id, start, start + len(candidate.text), candidate.text))
            start += len(candidate.text) + 1
        text = "\n".join(candidate.text for candidate in held)
        passage = Passage(f"{doc_id}#{rank - 1}", doc_id, "", held[0].title, 0, len(text), text, tuple(sentences))
        hit = Hit(question.question_id, question.text, rank, 1 / rank, None, None, None, None, passage)
        made += [Candidate(hit, s, candidate.position) for s, candidate in zip(sentences, held, strict=True)]
    return RankedList(question, tuple(made))
