"""answers/ and answers.jsonl: the best candidate of each question, with its page and its place in the crawl.

A unit of rerank writes its questions' part of answers/; answers.jsonl, for people, is the parts one after the
other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import whole_text
from answermill.pipelines.runs.parquet_folder import Folder, Part
from answermill.pipelines.specs.rerank import ANSWERS, ANSWERS_FILE
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Answer, Hit, RankedList, ScoredCandidate


def questions_of(run: Path, retrieved: Folder[Hit]) -> Folder[Question]:
    """questions/, whose parts have the questions of the parts of retrieved/, and those without hits.

    Raises JobError (66) if the folder does not exist.
    """
    questions = QUESTIONS.open(run)
    if len(questions.parts) != len(retrieved.parts):
        raise RuntimeError(
            f"{len(questions.parts)} parts in {questions.path}, {len(retrieved.parts)} in {retrieved.path}"
        )
    return questions


def best_of(lists: Sequence[RankedList], rows: Sequence[ScoredCandidate]) -> dict[str, Answer]:
    """Question id → its answer, for the lists with a kept candidate. `rows`: the result of a plan on the
    lists."""
    passages = {
        (ranked.question.question_id, candidate.hit.passage.passage_id): candidate.hit.passage
        for ranked in lists
        for candidate in ranked.candidates
    }
    return {
        row.question_id: answer_of(row, passages[row.question_id, row.passage_id])
        for row in rows
        if row.rank == 1
    }


def answer_of(row: ScoredCandidate, passage: Passage) -> Answer:
    """A candidate as an answer; `passage`: the passage that it is in, with its place in the crawl."""
    place = (passage.source_file, passage.source_offset, passage.source_record) if passage.source_file else ()
    score = row.stages[-1].score if row.stages else None
    page = (row.title, row.url, row.candidate_id, row.passage_id, row.doc_id, row.start, row.end)
    return Answer(row.question_id, row.question, row.text, row.unit, score, *page, *place)


def write_jsonl(run: Path, parts: Sequence[Part]) -> Part:
    """Write answers.jsonl from the parts of answers/, row by row; return its lines, bytes and SHA-256.

    One line per question, in the questions' order; `answer` is null if nothing was retrieved, or all of it
    was dropped.
    """
    with whole_text(run / ANSWERS_FILE) as write:
        for part in parts:
            for answer in ANSWERS.read_part(run, part):
                write(json.dumps(line_of(answer), ensure_ascii=False) + "\n")
    return Part.of(run, ANSWERS_FILE, sum(part.rows for part in parts))


def line_of(answer: Answer) -> dict[str, Any]:
    """An answer as in answers.jsonl: without values that are null for want of an answer, or of a place in the
    crawl."""
    values = answer.to_dict()
    names = list(values)
    if answer.answer is None:
        names = names[: names.index("answer") + 1]
    elif answer.source_file is None:
        names = names[: names.index("source_file")]
    return {name: values[name] for name in names}
