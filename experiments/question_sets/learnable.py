"""Lists that a model measured on the test sets may learn from: none of them gives away an answer of a test
question."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.schemas.labels import LabelledCandidate
from experiments.question_sets import draw
from experiments.question_sets.gold import Asked, canonical, drawn
from experiments.train_lists import without_test_answers

Questions = list[list[LabelledCandidate]]


def answered(path: Path, most: int | None = None) -> Questions:
    """Questions of a data set that have an answer, or `most` of them."""
    lists = [rows for rows in by_question(read_dataset(path)) if any(row.label for row in rows)]
    return lists if most is None else some_of(lists, most)


def some_of(lists: Questions, number: int) -> Questions:
    """At most `number` of the questions, drawn by hash, and so from all of a set's documents."""
    names = set(drawn((rows[0].question_id for rows in lists), number))
    return [rows for rows in lists if rows[0].question_id in names]


def learnable(data: Path, lists: Questions) -> Questions:
    """Questions that no test set asks in the same words and that still have an answer, without candidates
    that are an answer of a test question."""
    tests, answers = {canonical(asked.text) for asked in asked_in_tests(data)}, draw.test_answers(data)
    others = [row for rows in lists if canonical(rows[0].question) not in tests for row in rows]
    return [
        rows for rows in by_question(without_test_answers(others, answers)) if any(row.label for row in rows)
    ]


def asked_in_tests(data: Path) -> list[Asked]:
    """All questions that the test sets may draw."""
    return [question for members in draw.test_pool(data).values() for question in members]
