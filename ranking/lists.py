"""Labelled candidates as the ranked lists that rerankers read: a data set is ranked by the same `rerank` as a
crawl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.labels import NEIGHBOURS, RETRIEVAL, LabelledCandidate, LabelledPassage
from answermill.schemas.ranked import Candidate, Hit, RankedList


def ranked_list(candidates: Sequence[LabelledCandidate], neighbours: bool = True) -> RankedList:
    """The candidates of one question, in their original order, as sentences; those of one document are its
    passage.

    If the data set does not name the document, each candidate is a passage by itself. If the set gives its
    neighbours, each candidate is a passage too, with them as its other sentences; without `neighbours` it has
    none. Raises ValueError if there is no candidate, or if the candidates belong to several questions.
    """
    if not candidates or len({c.question_id for c in candidates}) > 1:
        raise ValueError(
            f"{len(candidates)} candidates of {len({c.question_id for c in candidates})} questions; give "
            "one's"
        )

    question = Question(candidates[0].question_id, candidates[0].question)
    ranked: list[Candidate] = []
    passages = groupby(
        candidates, key=lambda c: (c.doc_id or c.candidate_id, c.candidate_id if _knows_neighbours(c) else "")
    )

    for rank, ((doc_id, _), group) in enumerate(passages, 1):
        members = list(group)
        texts = [(candidate.candidate_id, candidate.text) for candidate in members]
        own = slice(0, len(members))

        # A candidate that knows its neighbours stands between them in a passage of three sentences.
        if neighbours and _knows_neighbours(members[0]):
            ((name, _),) = texts
            before, after = (
                [(f"{name}:{side}", text)] if (text := getattr(members[0], side)) else []
                for side in NEIGHBOURS
            )
            own, texts = slice(len(before), len(before) + 1), [*before, *texts, *after]

        sentences = _sentences(texts)
        text = "\n".join(text for _, text in texts)
        hit = _hit(
            question,
            rank,
            Passage(f"{doc_id}#{rank - 1}", doc_id, "", members[0].title, 0, len(text), text, sentences),
        )
        ranked += [
            Candidate(hit, sentence, candidate.position, retrieval=_retrieval(candidate))
            for sentence, candidate in zip(sentences[own], members, strict=True)
        ]

    return RankedList(question, tuple(ranked))


def _retrieval(candidate: LabelledCandidate) -> Mapping[str, float | None] | None:
    """The set's columns of the candidate's retrieval; None if the passage of its hit gives its place."""
    columns = {name: getattr(candidate, name) for name in RETRIEVAL}
    return (
        columns
        if _knows_neighbours(candidate) or any(value is not None for value in columns.values())
        else None
    )


def _knows_neighbours(candidate: LabelledCandidate) -> bool:
    return any(getattr(candidate, name) is not None for name in NEIGHBOURS)


def ranked_passages(passages: Sequence[LabelledPassage]) -> RankedList:
    """The passages of one question, in their order. Raises ValueError if there is none, or if they belong to
    several."""
    if not passages or len({p.question_id for p in passages}) > 1:
        raise ValueError(
            f"{len(passages)} passages of {len({p.question_id for p in passages})} questions; give one's"
        )
    question = Question(passages[0].question_id, passages[0].question)
    ranked = []
    for rank, row in enumerate(passages, 1):
        sentences = _sentences((sentence.sentence_id, sentence.text) for sentence in row.sentences)
        passage = Passage(row.passage_id, row.doc_id, "", row.title, 0, len(row.text), row.text, sentences)
        ranked.append(Candidate(_hit(question, rank, passage), None, rank - 1))
    return RankedList(question, tuple(ranked))


def _sentences(texts: Iterable[tuple[str, str]]) -> tuple[Sentence, ...]:
    """Sentences of (id, text) pairs, laid end to end with a character between."""
    sentences, start = [], 0
    for sentence_id, text in texts:
        sentences.append(Sentence(sentence_id, start, start + len(text), text))
        start += len(text) + 1
    return tuple(sentences)


def _hit(question: Question, rank: int, passage: Passage) -> Hit:
    return Hit(question.question_id, question.text, rank, 1 / rank, None, None, None, None, passage)
