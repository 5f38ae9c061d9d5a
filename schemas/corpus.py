"""Parts of a crawl: documents, sentences, passages; the questions; and the refused records.

Ids are geometry: a sentence's id is its document and the code point at which it starts, so the same sentence
in two overlapping passages has one id, and label propagation is a join.
"""

from __future__ import annotations

import pyarrow as pa

from answermill.schemas.record import Record, column, many, one, record


@record
class TextMetrics(Record):
    """Figures of a document's text, by which pages may be chosen; the rules of `ingest.quality` look at them
    and others.

    Words are separated by blanks, but for those of `words`; a line is a paragraph, heading, list item or row
    of a table.
    """

    words: int = column(
        pa.int64(), "words as ingest.min_words counts them: in scripts without blanks two characters are one"
    )
    word_length: float = column(pa.float64(), "characters of a word, on average (Gopher: 3 to 10)")
    stop_words: int = column(
        pa.int32(),
        "how many of 'the', 'be', 'to', 'of', 'and', 'that', 'have', 'with' occur (Gopher: 2 or more)",
    )
    symbols: float = column(pa.float64(), "hash signs and ellipses for each word (Gopher: up to 0.1)")
    alphabetic: float = column(pa.float64(), "share of the words that have a letter (Gopher: 0.8 or more)")
    line_ends: float = column(
        pa.float64(), "share of the lines that end as a sentence does (FineWeb: 0.12 or more)"
    )
    short_lines: float = column(
        pa.float64(), "share of the lines of less than 30 characters (FineWeb: up to 0.67)"
    )
    repeated_lines: float = column(
        pa.float64(), "share of the characters in lines that came before (Gopher: up to 0.2; FineWeb: 0.1)"
    )


@record
class Document(Record):
    """The main text of one page, with where it came from."""

    doc_id: str = column(
        pa.string(),
        "given by the input, or 16 hex digits of the SHA-256 of URL and text, with its boilerplate",
        distinct=True,
    )
    url: str = column(pa.string(), "as crawled; '' if the input has none", distinct=True)
    domain: str = column(pa.string(), "registered domain of the URL, e.g. 'example.co.uk'; '' if it has none")
    title: str = column(pa.string(), "title of the page; '' if it has none")
    text: str = column(
        pa.string(), "main text, in Unicode; offsets below count its code points", distinct=True
    )
    language: str = column(pa.string(), "ISO 639-1 code, e.g. 'en'")
    language_confidence: float = column(
        pa.float64(),
        "probability of the language; 1 where a first, fast look was sure of it or the input declares it",
    )
    date: str = column(pa.string(), "when it was crawled, ISO 8601; '' if unknown")
    source_file: str = column(
        pa.string(), "input file: its path from the job file's folder, escapes for what cannot be shown"
    )
    source_offset: int = column(
        pa.int64(),
        "where the record starts: byte in the file for WARC and WET (of the compressed file, as in a CDX), "
        "byte in the decompressed text for JSONL, row number from 0 for Parquet",
    )
    source_record: str = column(
        pa.string(),
        "WARC-Record-ID, or the id that JSONL and Parquet give; '' if it has none",
        distinct=True,
    )
    text_hash: str = column(
        pa.string(),
        "32 hex digits of the SHA-256 of the text, letter case and white space folded",
        distinct=True,
    )
    metrics: TextMetrics = one(TextMetrics, "figures of the text")


@record
class Sentence(Record):
    """A sentence of one document: document.text[start:end] == text."""

    sentence_id: str = column(pa.string(), "'<doc_id>@<start>'", distinct=True)
    start: int = column(pa.int64(), "code point of Document.text at which it starts")
    end: int = column(pa.int64(), "code point after its last")
    text: str = column(pa.string(), "the sentence itself", distinct=True)


@record
class Passage(Record):
    """A run of whole sentences of one document, about 100 words (DPR §4.1); the unit that is indexed and
    retrieved."""

    passage_id: str = column(pa.string(), "'<doc_id>#<n>', n counted from 0 in reading order", distinct=True)
    doc_id: str = column(pa.string(), "Document.doc_id")
    url: str = column(pa.string(), "Document.url")
    title: str = column(pa.string(), "Document.title")
    start: int = column(pa.int64(), "code point of Document.text at which it starts")
    end: int = column(pa.int64(), "code point after its last")
    text: str = column(pa.string(), "Document.text[start:end]", distinct=True)
    sentences: tuple[Sentence, ...] = many(
        Sentence,
        "in reading order; in strict DPR mode those that start in the passage, whole, so it may be empty",
    )
    source_file: str = column(pa.string(), "Document.source_file; '' where there is no page", default="")
    source_offset: int = column(pa.int64(), "Document.source_offset", default=0)
    source_record: str = column(pa.string(), "Document.source_record", default="")
    date: str = column(pa.string(), "Document.date", default="")


@record
class Question(Record):
    """A question to be answered from the crawl."""

    question_id: str = column(pa.string(), "unique in the job")
    text: str = column(pa.string(), "the question as asked, in one line, normalised as pages are")


@record
class Rejected(Record):
    """An input record that was refused, and why; found again at its place in the input file."""

    source_file: str = column(
        pa.string(), "input file: its path from the job file's folder, escapes for what cannot be shown"
    )
    source_offset: int = column(
        pa.int64(),
        "as Document.source_offset; for labels and annotations the line, or the record of a JSON list, from "
        "1",
    )
    source_record: str = column(pa.string(), "WARC-Record-ID or given id; '' if it could not be read")
    url: str = column(pa.string(), "'' if it could not be read")
    reason: str = column(pa.string(), "one word for a kind, e.g. 'not_html', 'too_short', 'duplicate'")
    detail: str = column(pa.string(), "the values that decided, for people")
