"""The forms in which a data set of passages is published: a question's rows -> files that other tools read.

A form opens its files in a folder and takes the rows of one question after another, as `answermill passages`
orders them: memory holds one question, and the ids, if a form must name each passage once. Only windows were
judged; passages that were only retrieved are hard negatives and are in no judgements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from answermill.files.atomic_files import whole_text
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.parquet_folder import whole_file
from answermill.schemas.labels import LabelledCandidate, LabelledPassage

QuestionRows: TypeAlias = Sequence[LabelledPassage]
"""Rows of one question: its windows, then the passages that were only retrieved."""
Take: TypeAlias = Callable[[Split, QuestionRows], None]


def sentences(rows: QuestionRows) -> list[LabelledCandidate]:
    """The sentences of a question's passages, each once, in the order of their first occurrence, with the
    sentences before and after it in that passage."""
    first: dict[str, LabelledCandidate] = {}
    for row in rows:
        texts = ["", *(sentence.text for sentence in row.sentences), ""]
        for n, sentence in enumerate(row.sentences):
            place = (row.doc_id, row.title, len(first))
            candidate = LabelledCandidate(
                row.question_id, row.question, sentence.sentence_id, *place, sentence.text, sentence.label
            )
            first.setdefault(sentence.sentence_id, replace(candidate, previous=texts[n], next=texts[n + 2]))
    return list(first.values())


def judged(rows: QuestionRows) -> list[LabelledPassage]:
    """The windows: each holds a sentence that was judged."""
    return [row for row in rows if row.source == "window"]


def asnq_classes(rows: QuestionRows) -> list[tuple[LabelledCandidate, int]]:
    """The sentences with ASNQ's classes, where its long answer is a positive passage and its short answer a
    correct text.

    4: correct. 3: another sentence of a positive passage. 2: in no positive passage, but with the text of a
    correct sentence. 1: neither.
    """
    inside = {sentence.sentence_id for row in rows if row.label for sentence in row.sentences}
    candidates = sentences(rows)
    answers = {fold(candidate.text) for candidate in candidates if candidate.label}

    def class_of(candidate: LabelledCandidate) -> int:
        if candidate.label:
            return 4
        return 3 if candidate.candidate_id in inside else 2 if fold(candidate.text) in answers else 1

    return [(candidate, class_of(candidate)) for candidate in candidates]


@contextmanager
def parquet(out: Path, name: str) -> Iterator[Take]:
    """passages/ and sentences/: LabelledPassage and LabelledCandidate rows, a file for each split."""
    with ExitStack() as files:
        passages = {
            name: files.enter_context(whole_file(out / f"passages/{name}.parquet", LabelledPassage))
            for name in SPLITS
        }
        candidates = {
            name: files.enter_context(whole_file(out / f"sentences/{name}.parquet", LabelledCandidate))
            for name in SPLITS
        }

        def take(split: Split, rows: QuestionRows) -> None:
            passages[split](rows)
            candidates[split](sentences(rows))

        yield take


@contextmanager
def dpr(out: Path, name: str) -> Iterator[Take]:
    """dpr/<split>.json, as DPR's retriever training reads it; every negative is a hard one: judged, or
    retrieved."""
    with ExitStack() as files:
        writers = {split: files.enter_context(_array(out / f"dpr/{split}.json")) for split in SPLITS}

        def take(split: Split, rows: QuestionRows) -> None:
            writers[split](
                {
                    "dataset": name,
                    "question_id": rows[0].question_id,
                    "question": rows[0].question,
                    "answers": list(dict.fromkeys(s.text for s in sentences(rows) if s.label)),
                    "positive_ctxs": [_context(row) for row in rows if row.label],
                    "negative_ctxs": [],
                    "hard_negative_ctxs": [_context(row) for row in rows if not row.label],
                }
            )

        yield take


def _context(row: LabelledPassage) -> dict[str, Any]:
    return {"title": row.title, "text": row.text, "score": 0, "title_score": 0, "passage_id": row.passage_id}


@contextmanager
def _array(file: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A JSON array, an element a line."""
    with whole_text(file) as write:
        before = "[\n"

        def add(element: Mapping[str, Any]) -> None:
            nonlocal before
            write(before + json.dumps(element, ensure_ascii=False))
            before = ",\n"

        yield add
        write(("[" if before == "[\n" else "\n") + "]\n")


@contextmanager
def beir(out: Path, name: str) -> Iterator[Take]:
    """beir/: corpus.jsonl (every passage, once), queries.jsonl, qrels/<split>.tsv (the judged windows)."""
    with ExitStack() as files:
        corpus = files.enter_context(whole_text(out / "beir/corpus.jsonl"))
        queries = files.enter_context(whole_text(out / "beir/queries.jsonl"))
        qrels = {split: files.enter_context(whole_text(out / f"beir/qrels/{split}.tsv")) for split in SPLITS}
        for write in qrels.values():
            write("query-id\tcorpus-id\tscore\n")
        written: set[str] = set()

        def take(split: Split, rows: QuestionRows) -> None:
            queries(
                json.dumps({"_id": _plain(rows[0].question_id), "text": rows[0].question}, ensure_ascii=False)
                + "\n"
            )
            for row in rows:
                if row.passage_id not in written:
                    written.add(row.passage_id)
                    text = {"_id": _plain(row.passage_id), "title": row.title, "text": row.text}
                    corpus(json.dumps(text, ensure_ascii=False) + "\n")
            qrels[split](
                "".join(f"{row.question_id}\t{row.passage_id}\t{row.label}\n" for row in judged(rows))
            )

        yield take


@contextmanager
def asnq(out: Path, name: str) -> Iterator[Take]:
    """asnq/<split>.tsv: question, sentence and class, tabs between them, white space within folded; no
    header, no ids."""
    with ExitStack() as files:
        writers = {split: files.enter_context(whole_text(out / f"asnq/{split}.tsv")) for split in SPLITS}

        def take(split: Split, rows: QuestionRows) -> None:
            lines = (
                f"{_line(candidate.question)}\t{_line(candidate.text)}\t{number}\n"
                for candidate, number in asnq_classes(rows)
            )
            writers[split]("".join(lines))

        yield take


@contextmanager
def trec(out: Path, name: str) -> Iterator[Take]:
    """trec/: <split>.topics.tsv, and qrels of the judged windows and of their sentences as far as these are
    judged: <split>.passages.qrels, <split>.sentences.qrels."""
    kinds = ("topics.tsv", "passages.qrels", "sentences.qrels")
    with ExitStack() as files:
        writers = {
            (s, kind): files.enter_context(whole_text(out / f"trec/{s}.{kind}"))
            for s in SPLITS
            for kind in kinds
        }

        def take(split: Split, rows: QuestionRows) -> None:
            question = _plain(rows[0].question_id)
            writers[split, "topics.tsv"](f"{question}\t{_line(rows[0].question)}\n")
            passages = ((row.passage_id, row.label) for row in judged(rows))
            labels_of = {
                sentence.sentence_id: sentence.label
                for row in judged(rows)
                for sentence in row.sentences
                if sentence.judged is not False
            }
            for kind, labels in (("passages.qrels", passages), ("sentences.qrels", labels_of.items())):
                writers[split, kind](
                    "".join(f"{question} 0 {_plain(name)} {label}\n" for name, label in labels)
                )

        yield take


FORMS = {"parquet": parquet, "dpr": dpr, "beir": beir, "asnq": asnq, "trec": trec}


def _line(text: str) -> str:
    return " ".join(text.split())


def _plain(name: str) -> str:
    """An id that a table can hold. Raises JobError (65) for others."""
    if re.search(r'[\s"]', name) or not name:
        raise JobError(
            f"the id {name!r} has white space or quotes, which qrels cannot hold; leave out beir and trec",
            BAD_DATA,
        )
    return name
