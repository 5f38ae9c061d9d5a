"""Ranked lists: the hits of retrieval for a question, the candidates of the rerankers, and the published
rows.

`RankedList` is the main type of the pipeline. A candidate is a passage or a sentence; either way it carries
the retrieved passage, so the passage around a sentence, its page and its ranks in the indexes are never
looked up again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.record import Record, column, many, one, record

CandidateKind = Literal["passage", "sentence"]
"""Kind of a candidate: a retrieved passage, or a sentence of one."""


@record
class Hit(Record):
    """A passage that retrieval found for a question, with its score and rank in each index; ranks count from
    1."""

    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    rank: int = column(pa.int32(), "rank after fusion")
    fused_score: float = column(
        pa.float64(), "reciprocal rank fusion: sum over sources of 1 / (retrieve.fusion_k + rank)"
    )
    bm25_score: float | None = column(
        pa.float64(), "BM25 over the whole corpus; null where BM25 did not return it"
    )
    bm25_rank: int | None = column(pa.int32(), "rank by BM25 over all shards")
    dense_score: float | None = column(
        pa.float64(), "inner product of the encoders' vectors; null if not returned"
    )
    dense_rank: int | None = column(pa.int32(), "rank by the dense index over all shards")
    passage: Passage = one(Passage, "the passage")


@record
class StageScore(Record):
    """The score and rank that one stage of the rerank plan gave a candidate."""

    stage: str = column(pa.string(), "name of the stage; its reranker's name if the job gives none")
    score: float = column(pa.float64(), "higher is better; comparable within a question and stage only")
    rank: int | None = column(
        pa.int32(), "rank in the list that the stage returned, from 1; null if it left within the stage"
    )
    exit: int | None = column(
        pa.int32(),
        "number, from 1, of the model's exit that gave the score; null if the model has only one",
        default=None,
    )

    def named(self, stage: str) -> StageScore:
        """The same score as another stage's."""
        return StageScore(stage, self.score, self.rank, self.exit)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage, or one of its sentences, on its way through the stages.

    `position` counts from 0 in the original order (retrieval rank, then reading order) and never changes;
    list-wise models and ties need it.
    """

    hit: Hit
    sentence: Sentence | None
    position: int
    stages: tuple[StageScore, ...] = ()
    eligible: Mapping[str, int] | None = None
    """Sentence id → position, for sentences that may still be returned of a passage whose sentences were
    candidates before: all but the dropped ones. None: all of its sentences may."""
    retrieval: Mapping[str, float | None] | None = None
    """Columns `labels.RETRIEVAL` of a data set's candidate, if the set states its retrieval; a null column is
    unknown. None: its hit in the list states it."""

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """Sentences of the passage that may answer, in reading order, without those that a stage has
        dropped."""
        inside = self.hit.passage.sentences
        return inside if self.eligible is None else tuple(s for s in inside if s.sentence_id in self.eligible)

    @property
    def kind(self) -> CandidateKind:
        return "passage" if self.sentence is None else "sentence"

    @property
    def candidate_id(self) -> str:
        return self.hit.passage.passage_id if self.sentence is None else self.sentence.sentence_id

    @property
    def text(self) -> str:
        return self.hit.passage.text if self.sentence is None else self.sentence.text

    @property
    def score(self) -> float:
        """Score of the last stage, or retrieval's if there was no stage."""
        return self.stages[-1].score if self.stages else self.hit.fused_score

    def of_sentence(self, sentence: Sentence, position: int) -> Candidate:
        """The candidate that this sentence of the passage is, with the passage's scores."""
        return Candidate(self.hit, sentence, position, self.stages, None, self.retrieval)

    def with_stages(self, stages: tuple[StageScore, ...]) -> Candidate:
        """The candidate with these scores: what `dataclasses.replace` gives, several times as fast, since
        each stage makes every candidate anew."""
        return Candidate(self.hit, self.sentence, self.position, stages, self.eligible, self.retrieval)


@dataclass(frozen=True, slots=True)
class RankedList:
    """A question's candidates, best first."""

    question: Question
    candidates: tuple[Candidate, ...]
    left: tuple[Candidate, ...] = ()
    """Candidates that left within the stage that returned the list, with a score of it, whose rank is None,
    in the order of leaving. Candidates that are neither returned nor here left without a score of the
    stage."""


@record
class ScoredCandidate(Record):
    """One candidate of one question, with the scores of every stage and where it left the plan."""

    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    unit: str = column(pa.string(), "'passage' or 'sentence'")
    candidate_id: str = column(pa.string(), "passage_id or sentence_id")
    passage_id: str = column(pa.string(), "passage it was scored in, or the best retrieved")
    doc_id: str = column(pa.string(), "Document.doc_id")
    url: str = column(pa.string(), "Document.url")
    title: str = column(pa.string(), "Document.title")
    start: int = column(pa.int64(), "code point of Document.text at which it starts")
    end: int = column(pa.int64(), "code point after its last")
    text: str = column(pa.string(), "Document.text[start:end]")
    rank: int | None = column(pa.int32(), "rank in the plan's result, from 1; null if it left before")
    fate: str = column(
        pa.string(), "'kept'; 'dropped' by a stage; 'grouped' if a later stage read its passage instead"
    )
    dropped_by: str | None = column(pa.string(), "the stage that dropped it")
    position: int = column(pa.int32(), "original order, from 0: retrieval rank, then reading order")
    retrieved_rank: int = column(pa.int32(), "Hit.rank of the passage")
    fused_score: float = column(pa.float64(), "Hit.fused_score")
    bm25_score: float | None = column(pa.float64(), "Hit.bm25_score")
    bm25_rank: int | None = column(pa.int32(), "Hit.bm25_rank")
    dense_score: float | None = column(pa.float64(), "Hit.dense_score")
    dense_rank: int | None = column(pa.int32(), "Hit.dense_rank")
    stages: tuple[StageScore, ...] = many(
        StageScore, "scores of the stages that scored this candidate, in plan order"
    )


def answer_kind(rows: Iterable[tuple[str, int | None]]) -> str:
    """Kind in which a plan ends, from (kind, rank) of its candidates: that of a kept one. Only a plan that
    extracts sentences can keep none for a question."""
    return next((kind for kind, rank in rows if rank is not None), "sentence")


OPTIONAL = ("declined", "probability")
"""Columns of `Answer` that answers.jsonl leaves out where they are null."""


@record
class OtherAnswer(Record):
    """A further answer of a question, which says something else than those before it."""

    rank: int = column(pa.int32(), "ScoredCandidate.rank")
    answer: str = column(pa.string(), "ScoredCandidate.text")
    score: float | None = column(pa.float64(), "as Answer.score")
    title: str = column(pa.string(), "Document.title")
    url: str = column(pa.string(), "Document.url")
    candidate_id: str = column(pa.string(), "passage_id or sentence_id")
    passage_id: str = column(pa.string(), "passage it was scored in, or the best retrieved")
    doc_id: str = column(pa.string(), "Document.doc_id")
    start: int = column(pa.int64(), "code point of Document.text at which it starts")
    end: int = column(pa.int64(), "code point after its last")
    pages: int = column(pa.int32(), "as Answer.pages")
    sites: int = column(pa.int32(), "as Answer.sites")
    domains: int = column(pa.int32(), "as Answer.domains")
    first_date: str | None = column(pa.string(), "as Answer.first_date")
    last_date: str | None = column(pa.string(), "as Answer.last_date")
    same: tuple[str, ...] = column(pa.list_(pa.string()), "as Answer.same")


@record
class Answer(Record):
    """The best candidate of one question, with its page and its place in the crawl; all is null where no
    candidate was kept, and `answer` alone where the best one is below the bar of rerank.answers."""

    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    answer: str | None = column(
        pa.string(), "ScoredCandidate.text of rank 1; null where none is given", default=None
    )
    declined: str | None = column(
        pa.string(), "the same text where it is below the bar of rerank.answers, else null", default=None
    )
    unit: str | None = column(pa.string(), "'passage' or 'sentence'", default=None)
    score: float | None = column(
        pa.float64(), "of the last stage that scored it; null in a plan without scores", default=None
    )
    probability: float | None = column(
        pa.float64(), "that it is right, by a last stage `probability`; null without one", default=None
    )
    title: str | None = column(pa.string(), "Document.title", default=None)
    url: str | None = column(pa.string(), "Document.url", default=None)
    candidate_id: str | None = column(pa.string(), "passage_id or sentence_id", default=None)
    passage_id: str | None = column(
        pa.string(), "passage it was scored in, or the best retrieved", default=None
    )
    doc_id: str | None = column(pa.string(), "Document.doc_id", default=None)
    start: int | None = column(pa.int64(), "code point of Document.text at which it starts", default=None)
    end: int | None = column(pa.int64(), "code point after its last", default=None)
    pages: int | None = column(
        pa.int32(), "pages with a retrieved candidate that says the same, itself included", default=None
    )
    sites: int | None = column(pa.int32(), "hosts of these pages, 'www.' left out", default=None)
    domains: int | None = column(pa.int32(), "registered domains of these pages", default=None)
    first_date: str | None = column(
        pa.string(), "first Document.date of these pages; null where none has one", default=None
    )
    last_date: str | None = column(pa.string(), "last Document.date of these pages", default=None)
    same: tuple[str, ...] = column(
        pa.list_(pa.string()), "ids of the candidates that say the same, itself first", default=()
    )
    others: tuple[OtherAnswer, ...] = many(
        OtherAnswer, "next answers, if rerank.answers asks for more than one", default=()
    )
    source_file: str | None = column(
        pa.string(), "Document.source_file; null where there is no page", default=None
    )
    source_offset: int | None = column(pa.int64(), "Document.source_offset", default=None)
    source_record: str | None = column(pa.string(), "Document.source_record", default=None)
