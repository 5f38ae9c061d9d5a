"""The small tables that people provide: questions, labels and splits, as TSV, JSONL or Parquet, plain or gzip."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indexing.annotation.splits import SPLITS, Split
from indexing.labels.given_labels import GIVEN_LABEL
from pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from schemas.corpus import Question
from schemas.labels import LabelledPassage

QUESTION_ID = ("question_id", "_id", "id", "query_id")
QUESTION_TEXT = ("text", "question", "query")


@dataclass(frozen=True, slots=True)
class GivenQuestion:
    """A row of a file of questions: its line (or row of Parquet) from 1, the question, and how well-formed a model found it,
    from 0 to 1."""

    number: int
    question: Question
    well_formed: float | None


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, in its order, without their lines and scores. Raises JobError as `read_given_questions` does."""
    return [row.question for row in read_given_questions(path)]


def read_given_questions(path: Path) -> list[GivenQuestion]:
    """The questions of a file, in its order. The id of a row without one is its line, or row of Parquet, from 1.

    Raises JobError: 66 if the file is missing; 65, with the line, if a row is wrong or an id comes twice, or if there is no
    question.
    """
    questions: list[GivenQuestion] = []
    lines: dict[str, int] = {}
    for line, row in _rows(path, header=("question_id", "text")):
        text = _first(row, QUESTION_TEXT)
        if text is None or not str(text).strip():
            raise JobError(f"{path}:{line}: no question; give one of the columns {', '.join(QUESTION_TEXT)}", BAD_DATA)
        own_id = _first(row, QUESTION_ID)
        question_id = str(line if own_id is None else own_id)
        if question_id in lines:
            raise JobError(f"{path}:{line}: question id {question_id!r} is in line {lines[question_id]} already", BAD_DATA)
        lines[question_id] = line
        score = _score(path, line, row.get("well_formed"))
        questions.append(GivenQuestion(line, Question(question_id, str(text).strip()), score))
    if not questions:
        raise JobError(f"{path}: no question in it", BAD_DATA)
    return questions


def _score(path: Path, line: int, cell: Any) -> float | None:
    """The number in a cell `well_formed`; None if it is empty. Raises JobError (65) if it is no number from 0 to 1."""
    if cell in (None, ""):
        return None
    try:
        score = float(cell)
    except (TypeError, ValueError):
        score = math.nan
    if not 0 <= score <= 1:
        raise JobError(f"{path}:{line}: well_formed is {cell!r}; it must be a number from 0 to 1", BAD_DATA)
    return score


def label_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The sentence labels of a file, in batches of GIVEN_LABEL; `number` of each is its line, or row from 1 in Parquet.

    A label names its sentence by id, by text, or by both. Raises JobError as `read_questions` does.
    """
    rows = 0
    for table, names in _label_columns(path):
        line, question_id, sentence_id, text, label = (table[name].combine_chunks() for name in GIVEN_LABEL.names)
        missing = pc.or_(pc.or_(pc.is_null(question_id), pc.is_null(label)), pc.and_(pc.is_null(sentence_id), pc.is_null(text)))
        wrong = pc.or_(missing, pc.invert(pc.is_in(label, value_set=pa.array(["0", "1"]))))
        if (row := wrong.index(True).as_py()) >= 0:
            problem = f"label {label[row].as_py()!r}; it must be 0 or 1"
            if missing[row].as_py():
                problem = f"needs question_id, sentence_id or sentence, and label; it has {', '.join(names(row))}"
            raise JobError(f"{path}:{line[row]}: {problem}", BAD_DATA)
        columns = [line, question_id, sentence_id, text, pc.cast(label, pa.int8())]
        yield pa.RecordBatch.from_arrays(columns, schema=GIVEN_LABEL)
        rows += len(table)
    if not rows:
        raise JobError(f"{path}: no label in it", BAD_DATA)


_LABEL_COLUMNS = {
    "question_id": ("question_id",),
    "sentence_id": ("sentence_id",),
    "text": ("sentence", "text"),
    "label": ("label",),
}
_LABELS_AT_ONCE = 1 << 15


def _label_columns(path: Path) -> Iterator[tuple[pa.Table, Callable[[int], Iterable[str]]]]:
    """Tables with the columns of GIVEN_LABEL as text, null if a cell is empty; each with a function from a row to the names of
    its columns in the file."""
    if path.is_file() and path.name.lower().endswith(".parquet"):
        yield from _parquet_label_columns(path)
        return
    rows = _rows(path)
    while chunk := list(islice(rows, _LABELS_AT_ONCE)):
        columns = {"number": pa.array([line for line, _ in chunk], pa.int64())}
        for name, own in _LABEL_COLUMNS.items():
            values = [_first(row, own) for _, row in chunk]
            columns[name] = pa.array([None if value is None else str(value) for value in values], pa.string())
        yield pa.table(columns), partial(_names, chunk)


def _names(chunk: Sequence[tuple[int, Mapping[str, Any]]], row: int) -> Iterable[str]:
    return map(str, chunk[row][1])


def _parquet_label_columns(path: Path) -> Iterator[tuple[pa.Table, Callable[[int], Iterable[str]]]]:
    first = 1
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            present = [name for own in _LABEL_COLUMNS.values() for name in own if name in names]
            for batch in file.iter_batches(batch_size=_LABELS_AT_ONCE, columns=present):
                columns = {"number": pa.array(range(first, first + batch.num_rows), pa.int64())}
                for name, own in _LABEL_COLUMNS.items():
                    texts = [pc.cast(batch.column(column), pa.string()) for column in own if column in present]
                    empty = pa.nulls(batch.num_rows, pa.string())
                    columns[name] = pc.coalesce(*(pc.if_else(pc.equal(text, ""), empty, text) for text in texts), empty)
                yield pa.table(columns), lambda n: names
                first += batch.num_rows
    except pa.ArrowInvalid as e:
        raise JobError(f"{path}: not readable as parquet: {e}", BAD_DATA) from e


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
    splits: dict[str, Split] = {}
    for line, row in _rows(path, header=("question_id", "split")):
        question_id = _first(row, QUESTION_ID)
        name = next((name for name in SPLITS if row.get("split") == name), None)
        if question_id is None or name is None:
            cells = f"question id {question_id!r} and split {row.get('split')!r}"
            raise JobError(f"{path}:{line}: {cells}; give question_id, and as split {', '.join(SPLITS)}", BAD_DATA)
        if (other := splits.setdefault(str(question_id), name)) != name:
            raise JobError(f"{path}:{line}: question id {question_id!r} is in {other} already, {name} here", BAD_DATA)
    if not splits:
        raise JobError(f"{path}: no question in it", BAD_DATA)
    return splits


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _rows(path: Path, header: tuple[str, ...] = ()) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line from 1, row) of a file in any of the formats; `header` names the columns of a TSV file without a header line."""
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
                    columns = f"; without one it must have the columns {', '.join(header)}" if header else ""
                    raise JobError(f"{path}:{line}: no header line{columns}", BAD_DATA)
            if len(cells) != len(names):
                raise JobError(f"{path}:{line}: {len(cells)} cells where the header has {len(names)}", BAD_DATA)
            yield line, dict(zip(names, cells, strict=True))
