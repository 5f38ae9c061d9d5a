"""Common ground of the readers: rows, the fields of JSON objects, and the order that candidates must have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from answermill.pipelines.data.inputs.text_lines import bad
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.labels import LabelledCandidate

T = TypeVar("T")


class Row(NamedTuple):
    """One candidate as a reader finds it; `in_order` gives it its position, and its id if the data set has
    none."""

    where: int | str  # the line, from 1, or the place in a JSON file
    question_id: str
    question: str
    text: str
    label: int
    candidate_id: str | None = None
    doc_id: str = ""
    title: str = ""
    asked_at: int | str | None = None  # start of the question's own record, in formats that have one
    optional: Mapping[str, Any] = {}  # columns of `labels.OPTIONAL`


def field(path: Path, where: int | str, row: Any, name: str, kind: type[T]) -> T:
    """`row[name]`, which must be there and of this kind."""
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad(path, where, f"{name!r} must be a {kind.__name__}, not {str(value)[:60]!r}")
    return value


def in_order(path: Path, rows: Iterable[Row]) -> Iterator[LabelledCandidate]:
    """The rows as candidates with their positions. Keeps one entry per question, and one question's candidate
    ids.

    Raises JobError if a question occurs again, changes its text, is empty, or names a candidate twice, or if
    there is no row.
    """
    starts: dict[str, int | str] = {}
    question_id, question, asked_at, position = None, "", None, 0
    ids: set[str] = set()

    for row in rows:
        # A new question, or the next candidate of the same.
        if row.question_id != question_id or row.asked_at != asked_at:
            if row.question_id in starts:
                raise bad(
                    path,
                    row.where,
                    f"question {row.question_id!r} comes again; it began at {starts[row.question_id]}",
                )
            if not row.question.strip() or not row.question_id:
                raise bad(path, row.where, "no question" if row.question_id else "no question id")

            question_id, question, asked_at, position, ids = (
                row.question_id,
                row.question,
                row.asked_at,
                0,
                set(),
            )
            starts[question_id] = row.where
        elif row.question != question:
            raise bad(
                path,
                row.where,
                f"question {question_id!r} has another text than at {starts[row.question_id]}",
            )

        candidate_id = row.candidate_id
        if candidate_id is None:
            candidate_id = str(position)
        elif candidate_id in ids:
            raise bad(path, row.where, f"candidate {candidate_id!r} is twice in question {question_id!r}")
        else:
            ids.add(candidate_id)

        columns = question_id, question, candidate_id, row.doc_id, row.title, position, row.text, row.label
        yield LabelledCandidate(*columns, **row.optional)
        position += 1

    if not starts:
        raise JobError(f"{path}: no candidate in it", BAD_DATA)
