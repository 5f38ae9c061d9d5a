"""What may be learnt from by a model that is measured on the test sets: nothing that tells an answer of
theirs."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.schemas.labels import LabelledCandidate
from experiments.question_sets import draw
from experiments.question_sets.gold import Asked, canonical
from experiments.train_lists import without_test_answers

Questions = list[list[LabelledCandidate]]


def answered(path: Path) -> Questions:
    """The questions of a data set that have an answer."""
    return [rows for rows in by_question(read_dataset(path)) if any(row.label for row in rows)]


def learnable(data: Path, lists: Questions) -> Questions:
    """The questions in other words than every test question, without candidates that are an answer of one; of
    these, the questions that still have an answer."""
    asked, answers = {canonical(each.text) for each in asked_in_tests(data)}, draw.test_answers(data)
    others = [row for rows in lists if canonical(rows[0].question) not in asked for row in rows]
    return [
        rows for rows in by_question(without_test_answers(others, answers)) if any(row.label for row in rows)
    ]


def asked_in_tests(data: Path) -> list[Asked]:
    """All that the test sets may ask."""
    return [each for members in draw.test_pool(data).values() for each in members]
