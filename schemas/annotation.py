"""Annotation: tasks for people, their judgements, and the labels resolved from these (WQA §3.2)."""

from __future__ import annotations

import pyarrow as pa

from answermill.schemas.record import Record, column, record


@record
class Task(Record):
    """A question and a sentence that people judge: does it answer? With how it came to be chosen."""

    task_id: str = column(
        pa.string(), "16 hex digits of the SHA-256 of question_id and sentence_id: the same in every export"
    )
    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    sentence_id: str = column(pa.string(), "Sentence.sentence_id")
    sentence: str = column(pa.string(), "Sentence.text")
    doc_id: str = column(pa.string(), "Document.doc_id")
    passage_id: str = column(pa.string(), "the retrieved passage that it is shown in")
    passage: str = column(pa.string(), "Passage.text, with the sentence whole if it runs over its end")
    start: int = column(pa.int64(), "code point of `passage` at which the sentence starts")
    end: int = column(pa.int64(), "code point after its last")
    title: str = column(pa.string(), "Document.title")
    url: str = column(pa.string(), "Document.url")
    text_hash: str = column(
        pa.string(), "16 hex digits of the SHA-256 of question and sentence: another one is another text"
    )
    score: float = column(
        pa.float64(), "of the last stage that scored it, else of retrieval; higher is better"
    )
    rank: int | None = column(pa.int32(), "ScoredCandidate.rank; null if it left the plan before its end")
    stratum: str = column(
        pa.string(), "'top', 'random' (below the top) or 'control' (of a known label; packs hide which)"
    )
    probability: float = column(pa.float64(), "with which its stratum took it, over seeds; 1 in the top")
    expected: int | None = column(
        pa.int8(), "the known label if there is one, whatever the stratum; packs hide it"
    )
    annotators: int = column(pa.int32(), "people who are to judge it")


@record
class Annotation(Record):
    """One person's judgement of one task, or what a tool recorded in their name."""

    task_id: str = column(pa.string(), "Task.task_id")
    question_id: str = column(pa.string(), "Task.question_id")
    sentence_id: str = column(pa.string(), "Task.sentence_id")
    annotator: str = column(pa.string(), "as the tool names them")
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")
    stratum: str = column(pa.string(), "Task.stratum")
    expected: int | None = column(pa.int8(), "Task.expected")


@record
class ResolvedLabel(Record):
    """The label of a task, as resolved from its annotations; the stratum 'control' has none."""

    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    sentence_id: str = column(pa.string(), "Sentence.sentence_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    sentence: str = column(pa.string(), "Sentence.text when it was annotated")
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")
    votes: int = column(pa.int32(), "annotations that it comes from; 1 if the adjudicator decided")
    positive: float = column(pa.float64(), "weighted share of them that say 1, from 0 to 1")
    stratum: str = column(pa.string(), "Task.stratum")
    probability: float = column(pa.float64(), "Task.probability")


@record
class Conflict(Record):
    """A task whose annotations disagree, or have no weight, resolved or not; controls are none."""

    task_id: str = column(pa.string(), "Task.task_id")
    question: str = column(pa.string(), "Question.text")
    sentence: str = column(pa.string(), "Sentence.text")
    votes: tuple[str, ...] = column(pa.list_(pa.string()), "'<annotator>=<label>', by annotator")
    label: int | None = column(pa.int8(), "as resolved; null if it is left open, or waits for more votes")
