"""The small tables that people bring: questions, labels and splits, as TSV, JSONL or Parquet, plain or gzip."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from indexing.labels import GivenLabel, fold
from indexing.splits import SPLITS, Split
from pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from schemas.corpus import Question
from schemas.labels import LabelledPassage

QUESTION_ID = ("question_id", "_id", "id", "query_id")
QUESTION_TEXT = ("text", "question", "query")


@dataclass(frozen=True, slots=True)
class GivenQuestion:
    """A question as people gave it: its line (row of Parquet) from 1, and what a model said of its form, from 0 to 1."""

    number: int
    question: Question
    well_formed: float | None


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, in its order, without what else stands there. Raises JobError as `read_given_questions` does."""
    return [given.question for given in read_given_questions(path)]


def read_given_questions(path: Path) -> list[GivenQuestion]:
    """The questions of a file, in its order. Where no row has an id, the row's number (from 1) is its id.

    Raises JobError: 66 where the file is missing, 65 with the line where a row is wrong, an id comes twice, or none is there.
    """
    questions: list[GivenQuestion] = []
    lines: dict[str, int] = {}
    for line, row in _rows(path, header=("question_id", "text")):
        text = _first(row, QUESTION_TEXT)
        if text is None or not str(text).strip():
            raise JobError(f"{path}:{line}: no question; give one of the columns {', '.join(QUESTION_TEXT)}", BAD_DATA)
        given = _first(row, QUESTION_ID)
        question_id = str(line if given is None else given)
        if question_id in lines:
            raise JobError(f"{path}:{line}: question id {question_id!r} stands in line {lines[question_id]} already", BAD_DATA)
        lines[question_id] = line
        score = _score(path, line, row.get("well_formed"))
        questions.append(GivenQuestion(line, Question(question_id, str(text).strip()), score))
    if not questions:
        raise JobError(f"{path}: no question in it", BAD_DATA)
    return questions


def _score(path: Path, line: int, given: Any) -> float | None:
    if given in (None, ""):
        return None
    try:
        score = float(given)
    except (TypeError, ValueError):
        score = math.nan
    if not 0 <= score <= 1:
        raise JobError(f"{path}:{line}: well_formed is {given!r}; it must be a number from 0 to 1", BAD_DATA)
    return score


def read_labels(path: Path) -> list[GivenLabel]:
    """The sentence labels of a file; `number` of each is its line. Raises JobError as `read_questions` does."""
    labels: list[GivenLabel] = []
    seen: dict[tuple[str, str | None, str], GivenLabel] = {}
    for line, row in _rows(path):
        sentence_id, text = _first(row, ("sentence_id",)), _first(row, ("sentence", "text"))
        question_id, label = _first(row, ("question_id",)), _first(row, ("label",))
        if question_id is None or label is None or (sentence_id is None and text is None):
            raise JobError(
                f"{path}:{line}: needs question_id, sentence_id or sentence, and label; it has {', '.join(map(str, row))}",
                BAD_DATA,
            )
        if str(label) not in ("0", "1"):
            raise JobError(f"{path}:{line}: label {label!r}; it must be 0 or 1", BAD_DATA)
        by_id = sentence_id is not None
        given = GivenLabel(
            number=line,
            question_id=str(question_id),
            sentence_id=str(sentence_id) if by_id else None,
            text=None if by_id else str(text),
            label=int(label),
        )
        first = seen.setdefault((given.question_id, given.sentence_id, fold(given.text or "")), given)
        if first.label != given.label:
            raise JobError(
                f"{path}:{line}: labelled {given.label}, but {first.label} in line {first.number}; leave one of them out",
                BAD_DATA,
            )
        labels.append(given)
    if not labels:
        raise JobError(f"{path}: no label in it", BAD_DATA)
    return labels


def read_passages(path: Path) -> list[list[LabelledPassage]]:
    """The labelled passages of each question, as `answermill passages` wrote them. Raises JobError (65, 66)."""
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)
    try:
        rows = LabelledPassage.rows(pq.read_table(path))
    except (pa.ArrowInvalid, KeyError, TypeError) as e:
        raise JobError(f"{path}: no labelled passages ({e}); `answermill passages` writes them", BAD_DATA) from e
    if not rows:
        raise JobError(f"{path}: no passage in it", BAD_DATA)
    return [list(group) for _, group in groupby(rows, key=lambda row: row.question_id)]


def read_splits(path: Path) -> dict[str, Split]:
    """Question id → its split, of a file. Raises JobError as `read_questions` does."""
    found: dict[str, Split] = {}
    for line, row in _rows(path, header=("question_id", "split")):
        given = _first(row, QUESTION_ID)
        name = next((name for name in SPLITS if row.get("split") == name), None)
        if given is None or name is None:
            told = f"question id {given!r} and split {row.get('split')!r}"
            raise JobError(f"{path}:{line}: {told}; give question_id, and as split {', '.join(SPLITS)}", BAD_DATA)
        if found.setdefault(str(given), name) != name:
            raise JobError(f"{path}:{line}: question id {given!r} is in {found[str(given)]} already, {name} here", BAD_DATA)
    if not found:
        raise JobError(f"{path}: no question in it", BAD_DATA)
    return found


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _rows(path: Path, header: tuple[str, ...] = ()) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line from 1, row) of any of the formats; `header` names the columns of a TSV file that has no header of its own."""
    if not path.is_file():
        raise JobError(f"{path}: no such file", INPUT_MISSING)
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    try:
        if kind == "parquet":
            yield from enumerate(pq.read_table(path).to_pylist(), 1)
        elif kind in ("jsonl", "json", "ndjson"):
            yield from _json_rows(path)
        elif kind in ("tsv", "txt"):
            yield from _tab_rows(path, header)
        else:
            raise JobError(f"{path}: ends in .{kind}; .tsv, .jsonl and .parquet can be read, each plain or with .gz", BAD_DATA)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, pa.ArrowInvalid) as e:
        raise JobError(f"{path}: not readable as {kind}: {e}", BAD_DATA) from e


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.name.endswith(".gz") else path.open(encoding="utf-8")


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with _open(path) as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except ValueError as e:
                raise JobError(f"{path}:{line}: not JSON: {e}", BAD_DATA) from e
            if not isinstance(row, dict):
                raise JobError(f"{path}:{line}: not a JSON object: {text.strip()[:60]}", BAD_DATA)
            yield line, row


def _tab_rows(path: Path, header: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names: tuple[str, ...] = ()
    with _open(path) as file:
        for line, cells in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            if not cells:
                continue
            if not names:
                known = {*QUESTION_ID, *QUESTION_TEXT, "sentence_id", "sentence", "label"}
                if known & {cell.strip().lower() for cell in cells}:
                    names = tuple(cell.strip().lower() for cell in cells)
                    continue
                names = header
                if len(cells) != len(names):
                    wanted = f"; without one it must have the columns {', '.join(header)}" if header else ""
                    raise JobError(f"{path}:{line}: no header line{wanted}", BAD_DATA)
            if len(cells) != len(names):
                raise JobError(f"{path}:{line}: {len(cells)} cells where the header has {len(names)}", BAD_DATA)
            yield line, dict(zip(names, cells, strict=True))
