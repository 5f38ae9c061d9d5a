"""Labels of sentences, as people give them, and what they say of the passages and documents that hold them (WQA §3.1, §3.3)."""

from __future__ import annotations

import pyarrow as pa

from schemas.record import Record, column, record


@record
class SentenceLabel(Record):
    """A given label, tied to a sentence of the corpus."""

    question_id: str = column(pa.string(), "Question.question_id")
    sentence_id: str = column(pa.string(), "Sentence.sentence_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    text: str = column(pa.string(), "the sentence")
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")


@record
class PassageLabel(Record):
    """A passage that holds at least one labelled sentence: positive if one of them is correct (WQA §3.3)."""

    question_id: str = column(pa.string(), "Question.question_id")
    passage_id: str = column(pa.string(), "Passage.passage_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    label: int = column(pa.int8(), "1 = holds a correct sentence; 0 = holds labelled sentences, none of them correct")
    sentence_ids: tuple[str, ...] = column(pa.list_(pa.string()), "its labelled sentences, in reading order")


@record
class DocumentLabel(Record):
    """A document that holds at least one labelled sentence: positive if one of them is correct (WQA §3.3)."""

    question_id: str = column(pa.string(), "Question.question_id")
    doc_id: str = column(pa.string(), "Document.doc_id")
    label: int = column(pa.int8(), "as PassageLabel.label")
