"""A question of a run, by its id or its text; if it is not there, the nearest ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from pathlib import Path

import pyarrow.compute as pc

from answermill.indexing.passages.text import fold, fold_all, one_line
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.look.explain.written_parts import WrittenParts
from answermill.pipelines.specs.retrieve import QUESTIONS, QUESTIONS_REJECTS
from answermill.schemas.corpus import Question, Rejected

NEAREST = 3
_COLUMNS = ("question_id", "text")
_SCORE = re.compile(r"^[\d.e+-]+: ")


@dataclass(frozen=True, slots=True)
class AskedOne:
    """A question of a run, and the number of the unit whose parts of retrieved/ and scored/ have its
    candidates."""

    question: Question
    unit: int
    others: tuple[str, ...]
    """Ids of further questions with the same text."""


def find_question(run: Path, wanted: str) -> AskedOne:
    """The question whose id `wanted` is, else the first of that text, letter case and white space folded.

    Raises JobError (66) if it is not among those that were searched by now; the message says why, and names
    the nearest ones.
    """
    asked = WrittenParts.of(run, QUESTIONS)
    if not asked.by_unit:
        advice = f"`answermill run JOB.toml --out {run}` goes on"
        why = asked.missing or "it is empty"
        raise JobError(f"{asked.folder} has no question yet: {why}; {advice}", INPUT_MISSING)

    by_text: list[tuple[Question, int]] = []
    for unit, batch in asked.batches(_COLUMNS):
        for question in Question.rows(batch.filter(pc.equal(batch["question_id"], wanted))):
            return AskedOne(question, unit, ())
        same = pc.equal(fold_all(batch["text"]), fold(one_line(wanted)))
        by_text += [(question, unit) for question in Question.rows(batch.filter(same))]

    if by_text:
        (question, unit), *rest = by_text
        return AskedOne(question, unit, tuple(other.question_id for other, _ in rest))

    raise JobError(_absence(run, wanted, asked), INPUT_MISSING)


def _absence(run: Path, wanted: str, asked: WrittenParts[Question]) -> str:
    """What to say of a question that is not there."""
    if (reject := _reject(run, wanted)) is not None:
        return f"question {reject.source_record} was not asked in {run}: {reject.reason} ({reject.detail})"

    questions = (question for _, batch in asked.batches(_COLUMNS) for question in Question.rows(batch))
    near = nlargest(
        NEAREST, ((_nearness(wanted, question), question) for question in questions), key=lambda pair: pair[0]
    )
    shown = "; ".join(
        f"{question.question_id} ({question.text})" for nearness, question in near if nearness > 0
    )
    unfinished = f"; {asked.missing}, and it may come" if asked.missing else ""

    return f"no question of {run} has the id or the text {wanted!r}{unfinished}" + (
        f"; the nearest: {shown}" if shown else ""
    )


def _reject(run: Path, wanted: str) -> Rejected | None:
    """The question among those that retrieve refused or left out of its sample, whose details are 'TEXT' or
    'SCORE: TEXT'."""
    text = fold(one_line(wanted))
    for _, batch in WrittenParts.of(run, QUESTIONS_REJECTS).batches():
        for reject in Rejected.rows(batch):
            detail = fold(reject.detail)
            if reject.source_record == wanted or text in (detail, _SCORE.sub("", detail)):
                return reject
    return None


def _nearness(wanted: str, question: Question) -> float:
    """From 0 to 1: the likeness of the ids, or the share of words that both texts have."""
    return max(_same_words(wanted, question.text), _likeness(wanted, question.question_id))


def _same_words(a: str, b: str) -> float:
    words, others = set(_words(a)), set(_words(b))
    return len(words & others) / max(1, len(words | others))


def _words(text: str) -> Iterator[str]:
    return (word.strip("?!.,;:'\"") for word in fold(text).split())


def _likeness(wanted: str, question_id: str) -> float:
    """Of two ids; 0 for what has several words, which is no id."""
    if " " in wanted:
        return 0.0
    matcher = SequenceMatcher(None, wanted.lower(), question_id.lower())
    return matcher.ratio() if matcher.real_quick_ratio() > 0.5 else 0.0
