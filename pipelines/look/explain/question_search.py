"""Search for a question of a run by id or text; if it is not there, for the nearest ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from pathlib import Path
from textwrap import shorten

import pyarrow.compute as pc

from answermill.indexing.passages.text import fold, fold_all, one_line
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.look.explain.written_parts import WrittenParts
from answermill.pipelines.specs.retrieve import QUESTIONS, QUESTIONS_REJECTS
from answermill.schemas.corpus import Question, Rejected

NEAREST = 3
_SHOWN = 160  # characters of a question
_COLUMNS = ("question_id", "text")
_SCORE = re.compile(r"^[\d.e+-]+: ")


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """A question of a run, and the number of the unit whose parts of retrieved/ and scored/ have its
    candidates."""

    question: Question
    unit: int
    others: tuple[str, ...]
    """Ids of further questions with the same text."""


def find_question(run: Path, wanted: str) -> FoundQuestion:
    """The question with the id `wanted`, else the first with that text, ignoring case and white space.

    Raises JobError (66) if it is not among the questions that were searched by now; the message says why, and
    names the nearest ones.
    """
    questions = WrittenParts.of(run, QUESTIONS)
    if not questions.by_unit:
        advice = f"`answermill run JOB.toml --out {run}` goes on"
        why = questions.missing or "it is empty"
        raise JobError(f"{questions.folder} has no question yet: {why}; {advice}", INPUT_MISSING)

    by_text: list[tuple[Question, int]] = []
    for unit, batch in questions.batches(_COLUMNS):
        for question in Question.rows(batch.filter(pc.equal(batch["question_id"], wanted))):
            return FoundQuestion(question, unit, ())
        same = pc.equal(fold_all(batch["text"]), fold(one_line(wanted)))
        by_text += [(question, unit) for question in Question.rows(batch.filter(same))]

    if by_text:
        (question, unit), *rest = by_text
        return FoundQuestion(question, unit, tuple(other.question_id for other, _ in rest))

    raise JobError(_absence(run, wanted, questions), INPUT_MISSING)


def _absence(run: Path, wanted: str, parts: WrittenParts[Question]) -> str:
    """Message about a question that is not there."""
    if (reject := _reject(run, wanted)) is not None:
        return f"question {reject.source_record} was not asked in {run}: {reject.reason} ({reject.detail})"

    questions = (question for _, batch in parts.batches(_COLUMNS) for question in Question.rows(batch))
    near = nlargest(
        NEAREST, ((_nearness(wanted, question), question) for question in questions), key=lambda pair: pair[0]
    )
    shown = "; ".join(
        f"{question.question_id} ({shorten(question.text, _SHOWN, placeholder=' …')})"
        for nearness, question in near
        if nearness > 0
    )
    unfinished = f"; {parts.missing}, and it may come" if parts.missing else ""

    return f"no question of {run} has the id or the text {wanted!r}{unfinished}" + (
        f"; the nearest: {shown}" if shown else ""
    )


def _reject(run: Path, wanted: str) -> Rejected | None:
    """The question among those that retrieve refused or did not sample, whose details are 'TEXT' or
    'SCORE: TEXT'."""
    text = fold(one_line(wanted))
    for _, batch in WrittenParts.of(run, QUESTIONS_REJECTS).batches():
        for reject in Rejected.rows(batch):
            detail = fold(reject.detail)
            if reject.source_record == wanted or text in (detail, _SCORE.sub("", detail)):
                return reject
    return None


def _nearness(wanted: str, question: Question) -> float:
    """Nearness from 0 to 1: the likeness of the ids, or the share of words that both texts have."""
    return max(_same_words(wanted, question.text), _likeness(wanted, question.question_id))


def _same_words(a: str, b: str) -> float:
    words, others = set(_words(a)), set(_words(b))
    return len(words & others) / max(1, len(words | others))


def _words(text: str) -> Iterator[str]:
    return (word.strip("?!.,;:'\"") for word in fold(text).split())


def _likeness(wanted: str, question_id: str) -> float:
    """Likeness of two ids; 0 if `wanted` has several words and so is no id."""
    if " " in wanted:
        return 0.0
    matcher = SequenceMatcher(None, wanted.lower(), question_id.lower())
    return matcher.ratio() if matcher.real_quick_ratio() > 0.5 else 0.0
