"""What the readers share: lines with their numbers, JSON with its fields checked, and the order that candidates must have."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from schemas.labels import LabelledCandidate

T = TypeVar("T")


class Row(NamedTuple):
    """One candidate as a reader finds it; `in_order` gives it its position, and its id if the data set has none."""

    where: int | str  # the line, from 1, or the place in a JSON file
    question_id: str
    question: str
    text: str
    label: int
    candidate_id: str | None = None
    doc_id: str = ""
    title: str = ""
    asked_at: int | str | None = None  # where the question's own record begins, in formats that have one


def bad(path: Path, where: int | str, what: str) -> JobError:
    return JobError(f"{path}:{where}: {what}", BAD_DATA)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip, whatever its name. Raises JobError (66) if it is missing."""
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""(line from 1, text without its \n or \r\n). Only \n ends a line: sentences hold lone \r and Unicode's separators."""
    number = 0
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8")
                yield number, (text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as e:
            raise bad(path, number, f"byte {e.start + 1} of the line is not UTF-8") from e
        except (gzip.BadGzipFile, EOFError, zlib.error) as e:
            raise bad(path, number + 1, f"broken gzip: {e}") from e


def parse_json(path: Path, text: str, first_line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise bad(path, first_line + e.lineno - 1, f"not JSON: {e.msg} at column {e.colno}") from e


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line from 1, object), one in memory at a time; empty lines are no rows."""
    for line, text in lines(path):
        if text.strip():
            row = parse_json(path, text, line)
            if not isinstance(row, dict):
                raise bad(path, line, f"not a JSON object: {text.strip()[:60]}")
            yield line, row


def field(path: Path, where: int | str, row: Any, name: str, kind: type[T]) -> T:
    """`row[name]`, which must be there and of this kind."""
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad(path, where, f"{name!r} must be a {kind.__name__}, not {str(value)[:60]!r}")
    return value


def in_order(path: Path, rows: Iterable[Row]) -> Iterator[LabelledCandidate]:
    """The rows as candidates with their positions. Keeps one entry per question, and one question's candidate ids.

    Raises JobError if a question comes again, changes its text, is empty, or names a candidate twice, or if there is no row.
    """
    began_at: dict[str, int | str] = {}
    question_id, question, asked_at, position = None, "", None, 0
    ids: set[str] = set()
    for row in rows:
        if row.question_id != question_id or row.asked_at != asked_at:
            if row.question_id in began_at:
                raise bad(path, row.where, f"question {row.question_id!r} comes again; it began at {began_at[row.question_id]}")
            if not row.question.strip() or not row.question_id:
                raise bad(path, row.where, "no question" if row.question_id else "no question id")
            question_id, question, asked_at, position, ids = row.question_id, row.question, row.asked_at, 0, set()
            began_at[question_id] = row.where
        elif row.question != question:
            raise bad(path, row.where, f"question {question_id!r} has another text than at {began_at[row.question_id]}")
        candidate_id = row.candidate_id
        if candidate_id is None:
            candidate_id = str(position)
        elif candidate_id in ids:
            raise bad(path, row.where, f"candidate {candidate_id!r} is twice in question {question_id!r}")
        else:
            ids.add(candidate_id)
        yield LabelledCandidate(question_id, question, candidate_id, row.doc_id, row.title, position, row.text, row.label)
        position += 1
    if not began_at:
        raise JobError(f"{path}: no candidate in it", BAD_DATA)
