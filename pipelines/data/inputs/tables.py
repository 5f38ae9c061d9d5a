"""The small tables that people provide: questions, splits and answers, as TSV, CSV, JSONL or Parquet,
plain or gzip.

The rules for a valid id and a valid text are here, for all of them.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from answermill.indexing.crawl.values import whole_number
from answermill.indexing.passages.text import one_line, visible
from answermill.pipelines.data.inputs.columns import ANSWERS, AS_NAMED, QUESTIONS, SPLITS, Columns
from answermill.pipelines.data.inputs.parquet_batches import parquet_batches
from answermill.pipelines.data.inputs.table_rows import needed_cell, table_rows
from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.data.splits import SPLITS as SPLIT_NAMES
from answermill.pipelines.data.splits import Split
from answermill.pipelines.errors import BAD_DATA, JobError, check_file
from answermill.schemas.corpus import Question
from answermill.schemas.labels import LabelledPassage

LONGEST = 131_072  # characters of a question, of a sentence, of an id
BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
"""Cell of a label, in small letters → label: 1.0 is what pandas makes of a 1 beside a missing value."""


@dataclass(frozen=True, slots=True)
class GivenQuestion:
    """A row of a file of questions: its line (or row of Parquet) from 1, the question, and a model's score of
    its form, from 0 to 1. `is_numbered`: True if its id is its line, since the file has its text alone."""

    number: int
    question: Question
    well_formed: float | None
    is_numbered: bool = False


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, in its order, without their lines and scores. Raises JobError as
    `read_given_questions` does."""
    return [row.question for row in read_given_questions(path)]


def read_given_questions(path: Path, columns: Columns = AS_NAMED) -> list[GivenQuestion]:
    """The questions of a file, in its order. If the text is the only column, an id is the line, or row of
    Parquet, from 1.

    Raises JobError: 66 if the file is missing; 65, with the line, if a row is wrong, an id occurs twice or is
    missing, or if there is no question.
    """
    questions: list[GivenQuestion] = []
    lines_by_id: dict[str, int] = {}
    for row in table_rows(path, QUESTIONS, columns):
        line, cells = row.number, row.cells
        text = text_of(path, line, "question", needed_cell(path, row, "text", columns))

        # A table without ids has nothing beside its texts: it may have ids under a name that we do not know.
        is_numbered = "question_id" not in cells and len(row.names) == 1
        if questions and is_numbered != questions[0].is_numbered:
            raise bad(
                path, line, f"a row {'without' if is_numbered else 'with'} an id, unlike those before it"
            )
        if "question_id" not in cells and not is_numbered:
            missing = columns.missing(path, line, "question_id", row.names)
            raise JobError(f"{missing}; else give each row one, or a file of the texts alone", BAD_DATA)
        own_id = line if is_numbered else needed_cell(path, row, "question_id", columns)
        question_id = id_of(path, line, "question id", own_id)
        if question_id in lines_by_id:
            raise bad(
                path, line, f"question id {question_id!r} is in line {lines_by_id[question_id]} already"
            )

        lines_by_id[question_id] = line
        score = _score(path, line, cells.get("well_formed"))
        questions.append(GivenQuestion(line, Question(question_id, text), score, is_numbered))

    if not questions:
        raise JobError(f"{path}: no question in it", BAD_DATA)

    return questions


def read_question_texts(path: Path, columns: Columns = AS_NAMED) -> list[str]:
    """The texts of the questions of a file, in its order, whose ids do not matter. Raises JobError as
    `read_given_questions`."""
    return [
        text_of(path, row.number, "question", needed_cell(path, row, "text", columns))
        for row in table_rows(path, QUESTIONS, columns)
    ]


def text_of(path: Path, line: int, name: str, value: object) -> str:
    """The text in a cell, in one line, normalised. Raises JobError (65) unless it is text with a visible
    character, and of at most LONGEST characters."""
    if not isinstance(value, str):
        raise bad(path, line, f"no {name}: {str(value)[:60]!r} is {_kind(value)}; give text")
    text = one_line(value)
    if not text:
        raise bad(
            path, line, f"no {name}: the cell has nothing but white space and characters that are not seen"
        )
    if len(text) > LONGEST:
        raise bad(path, line, f"{name} of {len(text):,} characters; at most {LONGEST:,}")
    return text


def id_of(path: Path, line: int, name: str, value: object) -> str:
    """The id in a cell, text or a whole number, unchanged; 7.0 is 7. Raises JobError (65) if it is neither,
    or holds invisible characters."""
    value = whole_number(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise bad(path, line, f"{name} {str(value)[:60]!r} is {_kind(value)}; give text or a whole number")
    text = str(value)
    if visible(text) != text or not text.strip() or len(text) > LONGEST:
        problem = (
            f"is longer than {LONGEST:,} characters"
            if len(text) > LONGEST
            else "is empty, or holds characters not seen"
        )
        raise bad(path, line, f"{name} {text[:60]!r} {problem}; give another")
    return text


def _kind(value: object) -> str:
    """Kind of a value, in words."""
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        bytes: "no text",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")


def _score(path: Path, line: int, cell: Any) -> float | None:
    """The number in a cell `well_formed`; None if it is empty. Raises JobError (65) if it is no number from 0
    to 1."""
    if cell in (None, ""):
        return None
    try:
        score = float(cell)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not 0 <= score <= 1:
        raise bad(path, line, f"well_formed is {reprlib.repr(cell)}; it must be a number from 0 to 1")
    return score


def read_passages(path: Path) -> list[list[LabelledPassage]]:
    """The labelled passages of each question. Raises JobError as `passage_rows`."""
    return [list(group) for _, group in groupby(passage_rows(path), key=lambda row: row.question_id)]


def passage_rows(path: Path) -> Iterator[LabelledPassage]:
    """Labelled passages, as `answermill passages` writes them, in the file's order. Raises JobError (65,
    66)."""
    check_file(path)

    names = LabelledPassage.schema().names
    is_empty = True
    for _, batch in parquet_batches(path, lambda schema: [name for name in names if name in schema.names]):
        try:
            rows = LabelledPassage.rows(batch)
        except (KeyError, TypeError) as e:
            raise JobError(
                f"{path}: no labelled passages ({e}); `answermill passages RUN --out OTHER` writes them",
                BAD_DATA,
            ) from e
        yield from rows
        is_empty = is_empty and not rows

    if is_empty:
        raise JobError(f"{path}: no passage in it", BAD_DATA)


def read_splits(path: Path, columns: Columns = AS_NAMED) -> dict[str, Split]:
    """Question id → its split, of a file. Raises JobError as `read_questions` does."""
    splits: dict[str, Split] = {}
    for row in table_rows(path, SPLITS, columns):
        line, split = row.number, needed_cell(path, row, "split", columns)
        question_id = id_of(path, line, "question id", needed_cell(path, row, "question_id", columns))
        name = next((name for name in SPLIT_NAMES if split == name), None)
        if name is None:
            raise bad(
                path, line, f"split {split!r} of question {question_id!r}; give {', '.join(SPLIT_NAMES)}"
            )
        if (other := splits.setdefault(question_id, name)) != name:
            raise bad(path, line, f"question id {question_id!r} is in {other} already, {name} here")

    if not splits:
        raise JobError(f"{path}: no question in it", BAD_DATA)

    return splits


def read_answers(path: Path, columns: Columns = AS_NAMED) -> dict[str, list[str]]:
    """Question id → its answers, short strings, of a file: a text or a list of them in `answers` or `answer`.
    An id may occur again with further answers; a row without any is skipped. Raises JobError as
    `read_questions` does."""
    answers: dict[str, list[str]] = {}
    for row in table_rows(path, ANSWERS, columns):
        line, cell = row.number, row.cells.get("answer")
        question_id = id_of(path, line, "question id", needed_cell(path, row, "question_id", columns))
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            with suppress(ValueError):  # a list in a TSV's cell; a text may begin so too
                cell = json.loads(cell)

        strings = [] if cell is None else [cell] if isinstance(cell, str) else cell
        if not isinstance(strings, list) or not all(isinstance(text, str) for text in strings):
            raise bad(path, line, f"answers {str(cell)[:60]!r}; give a text or a list of texts")

        answers.setdefault(question_id, []).extend(text for text in strings if text.strip())

    if not any(answers.values()):
        raise JobError(f"{path}: no answer in it; give a column answers or answer", BAD_DATA)

    return answers
