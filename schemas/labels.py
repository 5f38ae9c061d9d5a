"""Labels: of a data set's candidates; of the corpus' sentences, as people give them; of the passages and
documents that hold these sentences; and of the passages made from them for training (WQA §3.1, §3.3)."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from answermill.schemas.record import Record, column, many, record

WRONG = "label 0: "
"""Start of the detail of a refused label that calls its sentence wrong."""


@record
class LabelledCandidate(Record):
    """One candidate of one question of an answer sentence selection data set, in the set's original order."""

    question_id: str = column(
        pa.string(), "the data set's own, or made from the question's place in it; never its text"
    )
    question: str = column(pa.string(), "the question as asked")
    candidate_id: str = column(pa.string(), "unique within the question; the data set's own if it has one")
    doc_id: str = column(pa.string(), "document that it was taken from; '' if the data set does not say")
    title: str = column(pa.string(), "title of that document; '' if the data set does not say")
    position: int = column(pa.int32(), "original order within the question, from 0")
    text: str = column(
        pa.string(), "the candidate: a sentence, or a paragraph in NQ-LA; empty if the data set's own is"
    )
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")
    previous: str | None = column(
        pa.string(),
        "sentence before it in its passage, '' if it is the first; null: the candidate before it, if of the "
        "same document",
        default=None,
    )
    next: str | None = column(pa.string(), "sentence after it, alike", default=None)
    bm25: float | None = column(
        pa.float64(),
        "BM25's score of its passage, standardised over all sentences that were retrieved for the question, "
        "as `blend` weighs "
        "it; null if it was not retrieved, BM25 was not searched, or the data set does not say",
        default=None,
    )
    dense: float | None = column(pa.float64(), "the same of the dense index's score", default=None)
    log_rank: float | None = column(
        pa.float64(), "the same of -log of its passage's rank after fusion", default=None
    )
    place: int | None = column(
        pa.int32(), "sentences before it in its passage; null if the data set does not say", default=None
    )


OPTIONAL = tuple(field.name for field in fields(LabelledCandidate) if field.default is None)
"""Columns of `LabelledCandidate` that a data set may lack."""
NEIGHBOURS = ("previous", "next")
RETRIEVAL = tuple(name for name in OPTIONAL if name not in NEIGHBOURS)
"""Columns of the candidate's retrieval, all of them numbers."""


@record
class SentenceLabel(Record):
    """A given label, tied to a sentence of the corpus."""

    question_id: str = column(pa.string(), "Question.question_id")
    sentence_id: str = column(pa.string(), "Sentence.sentence_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    text: str = column(pa.string(), "the sentence")
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")
    source: str = column(
        pa.string(),
        "'given' by its id; 'text': given for every sentence of this text; 'same_text': given by id to "
        "others of this text",
        default="given",
    )


@record
class PassageLabel(Record):
    """A passage that holds at least one labelled sentence: positive if one of them is correct (WQA §3.3)."""

    question_id: str = column(pa.string(), "Question.question_id")
    passage_id: str = column(pa.string(), "Passage.passage_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    label: int = column(
        pa.int8(), "1 = holds a correct sentence; 0 = holds labelled sentences, none of them correct"
    )
    sentence_ids: tuple[str, ...] = column(pa.list_(pa.string()), "its labelled sentences, in reading order")


@record
class DocumentLabel(Record):
    """A document that holds at least one labelled sentence: positive if one of them is correct (WQA §3.3)."""

    question_id: str = column(pa.string(), "Question.question_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    label: int = column(pa.int8(), "as PassageLabel.label")


@record
class WindowLabel(Record):
    """A window around a labelled sentence: whole sentences of one document within a limit of tokens (WQA
    §3.3)."""

    question_id: str = column(pa.string(), "Question.question_id")
    window_id: str = column(
        pa.string(), "'<doc_id>:<start>-<end>', as of the windows in LabelledPassage.passage_id"
    )
    doc_id: str = column(pa.string(), "Document.doc_id")
    start: int = column(pa.int64(), "code point of Document.text at which it starts")
    end: int = column(pa.int64(), "code point after its last")
    label: int = column(
        pa.int8(), "1 = holds a correct sentence; 0 = holds labelled sentences, none of them correct"
    )
    sentence_id: str = column(pa.string(), "the labelled sentence that it is around")
    position: int = column(pa.int32(), "of that sentence in it, from 1")
    sentence_ids: tuple[str, ...] = column(pa.list_(pa.string()), "its sentences, in reading order")


@record
class LabelConflict(Record):
    """Contradicting duplicates: one text, one question, and labels that say both 1 and 0, of a sentence or in
    a passage.

    Of a sentence, its label by id holds; else what most labels of its text say; else, in a tie, it has none.
    A passage whose sentences of one text have different labels by id is positive, as it holds a correct one.
    """

    question_id: str = column(pa.string(), "Question.question_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    passage_id: str | None = column(
        pa.string(), "the passage if sentences in it differ; null if it is one sentence"
    )
    sentence_ids: tuple[str, ...] = column(
        pa.list_(pa.string()), "the sentence; or the passage's of that text, in reading order"
    )
    text: str = column(pa.string(), "the sentence's text, or the first one's")
    given: int | None = column(pa.int8(), "the sentence's label by id; null if it has none, and in passages")
    positive: int = column(
        pa.int32(), "labels of its text that say 1, or the passage's sentences that are correct"
    )
    negative: int = column(
        pa.int32(), "labels of its text that say 0, or the passage's sentences that are not"
    )
    positive_line: int = column(pa.int64(), "line of the first label that says 1, by id or text")
    negative_line: int = column(pa.int64(), "line of the first label that says 0")
    label: int | None = column(pa.int8(), "as resolved; null if a tie leaves it without a label")


@record
class LabelledSentence(Record):
    """A sentence of a passage for training."""

    sentence_id: str = column(pa.string(), "Sentence.sentence_id")
    text: str = column(pa.string(), "the sentence")
    label: int = column(pa.int8(), "1 = answers the question; 0 = does not, or is not labelled")
    judged: bool | None = column(
        pa.bool_(), "true if it is labelled; null if the data set does not say", default=None
    )


@record
class LabelledPassage(Record):
    """A question and a passage, for training: a window around a labelled sentence (WQA §3.3), or a hard
    negative."""

    question_id: str = column(pa.string(), "Question.question_id")
    question: str = column(pa.string(), "Question.text")
    passage_id: str = column(
        pa.string(), "Passage.passage_id; '<doc_id>:<start>-<end>' of a window, in code points"
    )
    doc_id: str = column(pa.string(), "Document.doc_id")
    title: str = column(pa.string(), "Document.title")
    text: str = column(pa.string(), "Document.text[start:end]")
    label: int = column(pa.int8(), "1 = holds a correct sentence; 0 = holds none that is known to be correct")
    source: str = column(pa.string(), "'window' around a labelled sentence, or 'retrieved' for the question")
    sentences: tuple[LabelledSentence, ...] = many(LabelledSentence, "in reading order")
