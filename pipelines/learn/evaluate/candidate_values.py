"""A score or label for each of many candidates, with the file and line that each was read from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.files.parquet_files import open_parquet
from answermill.files.store import fetch
from answermill.pipelines.errors import BAD_DATA, JobError

Value = tuple[int, str, str, float]
"""(line or row number, question id, candidate id, value)."""
SureValue = tuple[int, str, str, float, float | None]
"""The same with a confidence; None for a candidate that is no answer, since it was dropped."""


@dataclass(frozen=True, slots=True)
class CandidateValues:
    """A value per question id and candidate id, as arrays [n]."""

    question_id: pa.Array
    candidate_id: pa.Array
    value: npt.NDArray[np.float64]
    number: npt.NDArray[np.int64]
    """Place of the value in its file: the line from 1 in text, the row from 0 in Parquet."""
    files: tuple[tuple[Path, int], ...]
    """(file, number of values up to its end), in order."""
    confidence: npt.NDArray[np.float64] | None = None
    """The ranker's confidence in each, if `value` is only its place in an order; 0 for one that is no
    answer."""
    is_answer: npt.NDArray[np.bool_] | None = None
    """True for each that may be the answer, since it was not dropped; None if all may."""

    @classmethod
    def from_rows(cls, path: Path, rows: Iterable[Value | SureValue]) -> CandidateValues:
        """The values of one file, all with a confidence or all without."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        number, questions, candidates, values, *rest = columns
        ids = (pa.array(questions, pa.string()), pa.array(candidates, pa.string()))
        confidence = np.array([value or 0.0 for value in rest[0]], np.float64) if rest else None
        is_answer = np.array([value is not None for value in rest[0]], np.bool_) if rest else None
        files = ((path, len(number)),)
        return cls(
            *ids, np.array(values, np.float64), np.array(number, np.int64), files, confidence, is_answer
        )

    def __len__(self) -> int:
        return len(self.value)

    def where(self, n: int) -> str:
        """File and line, or file and row, of value n, for messages."""
        file = next(path for path, end in self.files if n < end)
        number = int(self.number[n])
        return f"{file}, row {number}" if file.name.endswith(".parquet") else f"{file}:{number}"


def number_of(path: Path, line: int, name: str, text: str) -> float:
    """The number that a cell holds. Raises JobError (65), with file and line, if it holds none."""
    try:
        return float(text)
    except ValueError:
        raise JobError(f"{path}:{line}: {name} {text!r} is no number", BAD_DATA) from None


def read_parquet(path: Path, value: str) -> CandidateValues:
    """A Parquet file with question_id, an id of the candidate, and the column `value`.

    Raises JobError (65) if a column is missing, a cell is null or of another type, or the file is not
    readable as Parquet.
    """
    try:
        with open_parquet(fetch(path)) as file:
            names = file.schema_arrow.names
            ids = next(
                (n for n in ("candidate_id", "sentence_id", "passage_id", "doc_id") if n in names),
                "candidate_id",
            )
            columns = ("question_id", ids, value)
            if missing := [n for n in columns if n not in names]:
                raise JobError(f"{path}: no column {', '.join(missing)}; it has {', '.join(names)}", BAD_DATA)
            table = file.read(columns=list(columns)).combine_chunks()
            table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise JobError(f"{path}: not readable as Parquet: {e}", BAD_DATA) from e

    for name in columns:
        for n in np.flatnonzero(table.column(name).is_null().to_numpy())[:1]:
            raise JobError(f"{path}, row {n}: null where {', '.join(columns)} are needed", BAD_DATA)

    try:
        types = (pa.string(), pa.string(), pa.float64())
        arrays = [
            table.column(name).cast(kind).combine_chunks() for name, kind in zip(columns, types, strict=True)
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise JobError(f"{path}: {value} is no number, or an id no text: {e}", BAD_DATA) from e

    question_id, candidate_id, values = arrays
    numbers = np.arange(len(table), dtype=np.int64)
    return CandidateValues(
        question_id, candidate_id, values.to_numpy(zero_copy_only=False), numbers, ((path, len(table)),)
    )
