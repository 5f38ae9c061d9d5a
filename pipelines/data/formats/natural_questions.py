"""Natural Questions (JSON lines, the original and the simplified format) as NQ-LA (Cosinet §5.1) and with
ASNQ's classes.

The two formats differ in how they hold the page: `document_tokens`, with a mark on HTML tags, or
`document_text`, tokens with blanks between, tags among them. Offsets are tokens in both, ends exclusive. Text
is the tokens joined by blanks, without tags.

Annotators: train has one, dev five. As in Natural Questions' own evaluation, a question is answered if at
least two of five gave a long answer, and then each one's counts; `annotators` sets the two. With fewer
annotations, all must have given one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from answermill.indexing.passages.sentences import Span
from answermill.pipelines.data.formats.format import FileHead, Format, Options
from answermill.pipelines.data.formats.rows_in_order import Row, field
from answermill.pipelines.data.formats.splitters import Splitter, splitter_of
from answermill.pipelines.data.inputs.text_lines import bad, json_lines

_TAG = re.compile(r"</?[A-Za-z][^>]*>")
_PARAGRAPH = re.compile(r"<p[\s_>]", re.IGNORECASE)
_CELL = re.compile(r"</?t[dh][\s_>]", re.IGNORECASE)


_KEYS = {"question_text", "long_answer_candidates", "annotations"}


class NqLaOptions(Options):
    annotators: int = Field(2, ge=1, description="how many of the (five) annotators must give a long answer")


class NqAsnqOptions(NqLaOptions):
    splitter: Literal["rules", "spacy"] | Splitter = Field(
        "rules", description="how pages are cut into sentences: our rules, or spaCy's sentencizer"
    )


def is_natural_questions(head: FileHead) -> bool:
    return head.first_object.keys() >= _KEYS


class NqPage(NamedTuple):
    """One line of the file. Spans are tokens; `long` holds candidate numbers, `long` and `short` are empty if
    too few annotators gave a long answer."""

    line: int
    question_id: str
    question: str
    url: str
    title: str
    tokens: Sequence[str]
    tags: Sequence[bool]
    candidates: Sequence[Span]
    top_level: Sequence[bool]
    long: frozenset[int]
    short: Sequence[Span]

    def text(self, span: Span) -> str:
        return " ".join(
            token
            for token, tag in zip(self.tokens[slice(*span)], self.tags[slice(*span)], strict=True)
            if not tag
        )

    def row(self, text: str, label: int, number: int) -> Row:
        """A candidate of this page; `number` is its id."""
        place = (self.url, self.title, self.line)
        return Row(self.line, self.question_id, self.question, text, label, str(number), *place)


def read_nq_la(path: Path, counted: Counter[str], options: NqLaOptions) -> Iterator[Row]:
    """Candidates: the page's paragraphs, i.e. its top-level long answer candidates that are a <P> (the paper
    leaves tables and lists out; NQ says that all paragraph answers are top-level). candidate_id is the number
    among all long answer candidates.

    Counts 'questions without candidates' and 'long answer is no paragraph': these stay, unanswered.
    """
    for page in pages(path, options.annotators):
        paragraphs = [
            number
            for number, (start, _) in enumerate(page.candidates)
            if page.top_level[number] and page.tags[start] and _PARAGRAPH.match(page.tokens[start])
        ]
        counted["questions without candidates"] += not paragraphs
        counted["long answer is no paragraph"] += bool(page.long) and page.long.isdisjoint(paragraphs)
        for number in paragraphs:
            text = page.text(page.candidates[number])
            label = int(number in page.long)
            yield page.row(text, label, number)


def read_nq_asnq(path: Path, counted: Counter[str], options: NqAsnqOptions) -> Iterator[Row]:
    """Candidates: the sentences of the whole page; those of ASNQ's class 4 are positive. candidate_id is the
    first token's number. Counts 'class 1' ... 'class 4' and 'questions without candidates'."""
    split = splitter_of(options.splitter)
    for page in pages(path, options.annotators):
        sentences = 0
        for token, sentence, kind in sentence_classes(page, split):
            counted[f"class {kind}"] += 1
            sentences += 1
            yield page.row(sentence, int(kind == 4), token)
        counted["questions without candidates"] += not sentences


def sentence_classes(page: NqPage, split: Splitter) -> Iterator[tuple[int, str, int]]:
    """(first token, sentence, class) in reading order. Classes (Garg et al. 2020): 4 in a long answer and
    holds a short one's words; 3 in a long answer, without; 2 elsewhere, holds them; 1 neither."""
    long = [page.candidates[number] for number in page.long]
    short = {f" {text} " for span in page.short if (text := page.text(span))}
    for first, tokens in _word_runs(page):
        starts = [0, *accumulate(len(token) + 1 for token in tokens)]
        text = " ".join(tokens)
        for start, end in split(text):
            sentence, token = text[start:end], first[bisect_right(starts, start) - 1]
            inside = any(left <= token < right for left, right in long)
            holds = any(words in f" {sentence} " for words in short)
            yield token, sentence, 1 + holds + 2 * inside


def _word_runs(page: NqPage) -> Iterator[tuple[list[int], list[str]]]:
    """(token numbers, tokens) of each run of words. Any tag ends a run but those of a table's cells: a row is
    a block."""
    numbers: list[int] = []
    for number, tag in enumerate(page.tags):
        if not tag:
            numbers.append(number)
        elif numbers and not _CELL.match(page.tokens[number]):
            yield numbers, [page.tokens[n] for n in numbers]
            numbers = []
    if numbers:
        yield numbers, [page.tokens[n] for n in numbers]


def pages(path: Path, annotators: int = 2) -> Iterator[NqPage]:
    """The pages of a file, one in memory at a time."""
    if annotators < 1:
        raise ValueError(f"annotators must be at least 1, not {annotators}")
    for line, row in json_lines(path):
        yield _page(path, line, row, annotators)


def _page(path: Path, line: int, row: Mapping[str, Any], annotators: int) -> NqPage:
    if "document_tokens" in row:
        objects = field(path, line, row, "document_tokens", list)
        tokens = [field(path, line, token, "token", str) for token in objects]
        tags = [field(path, line, token, "html_token", bool) for token in objects]
    else:
        tokens = field(path, line, row, "document_text", str).split(" ")
        tags = [_TAG.fullmatch(token) is not None for token in tokens]

    long_answers = field(path, line, row, "long_answer_candidates", list)
    candidates = [_span(path, line, candidate, len(tokens)) for candidate in long_answers]

    long: set[int] = set()
    short: list[Span] = []
    annotations = field(path, line, row, "annotations", list)
    answers = 0

    for annotation in annotations:
        number = field(path, line, field(path, line, annotation, "long_answer", dict), "candidate_index", int)
        if number >= len(candidates):
            raise bad(path, line, f"long answer {number} of {len(candidates)} candidates")
        if number >= 0:
            answers += 1
            long.add(number)
            short += [
                _span(path, line, s, len(tokens))
                for s in field(path, line, annotation, "short_answers", list)
            ]

    # An answer by too few annotators does not count.
    answered = answers >= min(annotators, len(annotations))
    return NqPage(
        line=line,
        question_id=str(row.get("example_id", line)),
        question=field(path, line, row, "question_text", str),
        url=str(row.get("document_url") or ""),
        title=str(row.get("document_title") or ""),
        tokens=tokens,
        tags=tags,
        candidates=candidates,
        top_level=[field(path, line, candidate, "top_level", bool) for candidate in long_answers],
        long=frozenset(long if answered else ()),
        short=short if answered else (),
    )


def _span(path: Path, line: int, row: Any, tokens: int) -> Span:
    start, end = field(path, line, row, "start_token", int), field(path, line, row, "end_token", int)
    if not 0 <= start < end <= tokens:
        raise bad(path, line, f"tokens {start} to {end} of a page of {tokens}")
    return start, end


NQ_LA = Format(
    name="nq-la",
    about="Natural Questions JSONL as NQ-LA: the paragraphs of the page",
    read=read_nq_la,
    recognise=is_natural_questions,
    options=NqLaOptions,
)
NQ_ASNQ = Format(  # the same files, so it must be given by name
    name="nq-asnq",
    about="Natural Questions JSONL with ASNQ's classes: the sentences of the page",
    read=read_nq_asnq,
    options=NqAsnqOptions,
)
