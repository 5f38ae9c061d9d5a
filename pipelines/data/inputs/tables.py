"""The small tables that people provide: questions, splits and labels, as TSV, JSONL or Parquet, plain or
gzip.

The rules for a valid id and a valid text are here, for all of them.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from answermill.indexing.passages.text import one_line, visible
from answermill.pipelines.data.inputs.parquet_batches import parquet_batches, parquet_rows
from answermill.pipelines.data.inputs.text_lines import bad, json_lines, lines
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.schemas.corpus import Question
from answermill.schemas.labels import LabelledPassage

QUESTION_ID = ("question_id", "_id", "id", "query_id")
_OTHER_IDS = frozenset(("qid", "questionid", "queryid", "topic", "topicid"))
"""Other names of the id, without hyphens: a first line that begins with one is a header that we do not read,
not a question."""
QUESTION_TEXT = ("text", "question", "query")
ANSWERS = ("answers", "answer")
LONGEST = 131_072  # characters of a question, of a sentence, of an id


@dataclass(frozen=True, slots=True)
class GivenQuestion:
    """A row of a file of questions: its line (or row of Parquet) from 1, the question, and a model's score of
    its form, from 0 to 1."""

    number: int
    question: Question
    well_formed: float | None


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, in its order, without their lines and scores. Raises JobError as
    `read_given_questions` does."""
    return [row.question for row in read_given_questions(path)]


def read_given_questions(path: Path) -> list[GivenQuestion]:
    """The questions of a file, in its order. The id of a row without one is its line, or row of Parquet, from
    1.

    Raises JobError: 66 if the file is missing; 65, with the line, if a row is wrong or an id occurs twice, or
    if there is no question.
    """
    questions: list[GivenQuestion] = []
    lines_by_id: dict[str, int] = {}
    for line, row in table_rows(
        path, (*QUESTION_ID, *QUESTION_TEXT, "well_formed"), header=("question_id", "text")
    ):
        text = first_cell(row, QUESTION_TEXT)
        if text is None:
            raise bad(path, line, f"no question; give one of the columns {', '.join(QUESTION_TEXT)}")

        own_id = first_cell(row, QUESTION_ID)
        question_id = str(line) if own_id is None else id_of(path, line, "question id", own_id)
        if question_id in lines_by_id:
            raise bad(
                path, line, f"question id {question_id!r} is in line {lines_by_id[question_id]} already"
            )

        lines_by_id[question_id] = line
        question = Question(question_id, text_of(path, line, "question", text))
        questions.append(GivenQuestion(line, question, _score(path, line, row.get("well_formed"))))

    if not questions:
        raise JobError(f"{path}: no question in it", BAD_DATA)

    return questions


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
    """The id in a cell, text or a whole number, unchanged. Raises JobError (65) if it is neither, or holds
    invisible characters."""
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
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)

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


def read_splits(path: Path) -> dict[str, Split]:
    """Question id → its split, of a file. Raises JobError as `read_questions` does."""
    splits: dict[str, Split] = {}
    for line, row in table_rows(path, (*QUESTION_ID, "split"), header=("question_id", "split")):
        own_id = first_cell(row, QUESTION_ID)
        name = next((name for name in SPLITS if row.get("split") == name), None)
        if own_id is None or name is None:
            cells = f"question id {own_id!r} and split {row.get('split')!r}"
            raise bad(path, line, f"{cells}; give question_id, and as split {', '.join(SPLITS)}")
        question_id = id_of(path, line, "question id", own_id)
        if (other := splits.setdefault(question_id, name)) != name:
            raise bad(path, line, f"question id {question_id!r} is in {other} already, {name} here")

    if not splits:
        raise JobError(f"{path}: no question in it", BAD_DATA)

    return splits


def read_answers(path: Path) -> dict[str, list[str]]:
    """Question id → its answers, short strings, of a file: a text or a list of them in `answers` or `answer`.
    An id may occur again with further answers; a row without any is skipped. Raises JobError as
    `read_questions` does."""
    answers: dict[str, list[str]] = {}
    for line, row in table_rows(path, (*QUESTION_ID, *ANSWERS), header=("question_id", "answer")):
        own_id = first_cell(row, QUESTION_ID)
        if own_id is None:
            raise bad(path, line, f"no question id; give one of the columns {', '.join(QUESTION_ID)}")

        cell = first_cell(row, ANSWERS)
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            with suppress(ValueError):  # a list in a TSV's cell; a text may begin so too
                cell = json.loads(cell)

        strings = [] if cell is None else [cell] if isinstance(cell, str) else cell
        if not isinstance(strings, list) or not all(isinstance(text, str) for text in strings):
            raise bad(path, line, f"answers {str(cell)[:60]!r}; give a text or a list of texts")

        answers.setdefault(id_of(path, line, "question id", own_id), []).extend(
            text for text in strings if text.strip()
        )

    if not any(answers.values()):
        raise JobError(f"{path}: no answer in it; give a column {' or '.join(ANSWERS)}", BAD_DATA)

    return answers


def first_cell(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these cells that is not empty; None if all are."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def table_rows(
    path: Path, names: Collection[str], header: tuple[str, ...] = ()
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line or row, from 1; row) of a file in any of the formats; of Parquet only the columns `names`.

    `header` names the columns of a TSV file without a header line. Raises JobError: 66 if the file is
    missing; 65, with the line, where it cannot be read.
    """
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)

    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind == "parquet":
        yield from parquet_rows(path, lambda schema: [name for name in names if name in schema.names])
    elif kind in ("jsonl", "json", "ndjson"):
        yield from json_lines(path)
    elif kind in ("tsv", "txt"):
        yield from _tab_rows(path, header)
    else:
        raise JobError(
            f"{path}: ends in .{kind}; .tsv, .jsonl and .parquet can be read, each plain or with .gz",
            BAD_DATA,
        )


def _tab_rows(path: Path, header: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names: tuple[str, ...] = ()
    for line, text in lines(path):
        if not text:
            continue

        cells = text.split("\t")

        # The first filled line is the header, if it names a column that is known.
        if not names:
            known = {*QUESTION_ID, *QUESTION_TEXT, "sentence_id", "sentence", "label"}
            if known & {cell.strip().lower() for cell in cells}:
                names = tuple(cell.strip().lower() for cell in cells)
                continue

            names = header
            if cells[0].strip().lower().replace("_", "").replace("-", "") in _OTHER_IDS:
                raise bad(
                    path,
                    line,
                    f"a header line with unknown columns: {text[:60]!r}; known: {', '.join(sorted(known))}",
                )

            if len(cells) != len(names):
                columns = f"; without one it must have the columns {', '.join(header)}" if header else ""
                raise bad(path, line, f"no header line{columns}")

        if len(cells) != len(names):
            raise bad(path, line, f"{len(cells)} cells where the header has {len(names)}")

        yield line, dict(zip(names, cells, strict=True))
