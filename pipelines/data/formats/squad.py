"""SQuAD v1.1 and v2.0 JSON -> SQuAD-sent (Cosinet §5.1): a paragraph's sentences are the candidates of its
questions.

The paper labels "a sentence [that] contains the answer span" and has at most one of them per question.
Annotators differ, and a sentence splitter may cut a span, so: positive is the sentence in which most
annotators' answers start; of several, the one that the first of these annotators meant. Unanswerable
questions (v2.0) have no positive.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from answermill.indexing.passages.sentences import Span
from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row, field
from answermill.pipelines.data.formats.splitters import Splitter, splitter_of
from answermill.pipelines.data.inputs.text_lines import bad, lines, parse_json

_KEYS = ("data", "paragraphs", "qas")


class SquadOptions(Options):
    splitter: Literal["rules", "spacy"] | Splitter = Field(
        "rules", description="how paragraphs are cut into sentences: our rules, or spaCy's sentencizer"
    )


def is_squad(head: FileHead) -> bool:
    return head.first_character == "{" and all(re.search(rf'"{key}"\s*:', head.text) for key in _KEYS)


def read_squad(path: Path, counted: Counter[str], options: SquadOptions) -> Iterator[Row]:
    """Candidates: the sentences of each question's paragraph, with doc_id '<title>#<paragraph from 0>' and
    candidate_id '<doc_id>@<offset in the paragraph>'. The file is one JSON object and read whole (the
    largest, v2.0 train, has 42 MB). Counts 'answered across sentences' (questions), and 'questions without
    candidates' if a paragraph is empty."""
    split = splitter_of(options.splitter)
    text = "\n".join(line for _, line in lines(path))
    articles = field(path, 1, parse_json(path, text) if text.strip() else {}, "data", list)

    for a, article in enumerate(articles):
        title = field(path, f"data[{a}]", article, "title", str)
        for p, paragraph in enumerate(field(path, f"data[{a}]", article, "paragraphs", list)):
            place, doc_id = f"data[{a}].paragraphs[{p}]", f"{title}#{p}"
            context = field(path, place, paragraph, "context", str)
            spans = list(split(context))

            for n, entry in enumerate(field(path, place, paragraph, "qas", list)):
                where = f"{place}.qas[{n}]"
                question_id, question = (field(path, where, entry, name, str) for name in ("id", "question"))

                answers = [] if entry.get("is_impossible") else _answers(path, where, context, entry)
                positive = positive_sentence(spans, answers)
                counted["answered across sentences"] += any(
                    spans[_holding(spans, s)][1] < e for s, e in answers
                )
                counted["questions without candidates"] += not spans
                for i, (start, end) in enumerate(spans):
                    ids = (f"{doc_id}@{start}", doc_id, title, where)
                    yield Row(where, question_id, question, context[start:end], int(i == positive), *ids)


def positive_sentence(sentences: Sequence[Span], answers: Sequence[Span]) -> int | None:
    """The number of the sentence in which most of the answers start, the first answer's of several; None
    without an answer."""
    votes = Counter(_holding(sentences, start) for start, _ in answers)
    return max(votes, key=lambda sentence: votes[sentence]) if votes else None


def _holding(sentences: Sequence[Span], offset: int) -> int:
    """The number of the sentence that holds this code point."""
    return max(0, bisect_right(sentences, offset, key=lambda span: span[0]) - 1)


def _answers(path: Path, where: str, context: str, entry: Any) -> list[Span]:
    spans = []
    for answer in field(path, where, entry, "answers", list):
        start, text = field(path, where, answer, "answer_start", int), field(path, where, answer, "text", str)
        if start < 0 or not text or not context.startswith(text, start):
            raise bad(path, where, f"answer {text[:60]!r} does not stand at {start} of its paragraph")
        spans.append((start, start + len(text)))
    return spans


FORMAT = Format(
    name="squad",
    about="SQuAD v1.1 / v2.0 JSON as SQuAD-sent: the sentences of the paragraph",
    read=read_squad,
    recognise=is_squad,
    options=SquadOptions,
)
