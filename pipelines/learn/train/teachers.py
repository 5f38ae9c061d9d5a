"""Teachers: a join of their logits, from tables that were written before, with the pairs of a training.

A table is a scored/ folder, whose stages are the teachers, or a Parquet with a column for each teacher;
several tables may have some teachers each. A row with ids belongs to the pair with its question id and
candidate id, if the texts of both, where the row has texts, are the same (letter case and white space
folded); else to the pairs with its texts, whatever their ids. A score found by ids replaces one found by
texts. Training uses only pairs that all teachers have scored; the others are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.files.parquet_files import open_parquet, raise_unless_damage
from answermill.indexing.passages.text import fold
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.rerank import SCORED
from answermill.schemas.labels import LabelledCandidate

_IDS = (("question_id",), ("candidate_id", "sentence_id"))
_TEXTS = (("question",), ("text", "sentence", "candidate"))
_BY_TEXT, _BY_ID = 1, 2


@dataclass(frozen=True, slots=True)
class Lessons:
    """The questions with candidates that all teachers have scored, and for each its logits [candidates,
    teachers]: NaN where a candidate is left out, which is still a neighbour of the others."""

    questions: list[list[LabelledCandidate]]
    logits: list[npt.NDArray[np.float32]]
    report: str
    """Numbers of pairs that were joined and left out, for people."""


class _Row(NamedTuple):
    where: str
    ids: tuple[str, str] | None
    texts: tuple[str, str] | None  # folded
    scores: dict[str, float | None]


def table_file(path: Path) -> Path:
    """The file that identifies a table's content: the Parquet, or the manifest of the scored/ folder, also of
    a run.

    Raises JobError (66) if there is none."""
    for file in (path, path / MANIFEST, SCORED.path(path) / MANIFEST):
        if file.is_file():
            return file
    raise JobError(
        f"{path}: no table of teachers; give a Parquet, or a run or its scored/ folder", INPUT_MISSING
    )


def teach(
    tables: Sequence[Path], teachers: Sequence[str], questions: Sequence[Sequence[LabelledCandidate]]
) -> Lessons:
    """Join the teachers' logits with the pairs of a training.

    Raises JobError: 65 if a score is no number, a pair has two, or no pair was scored by all; 78 if no table
    has a teacher; 66 if a table is missing.
    """
    join = _Join(teachers, questions)
    for table in tables:
        for row in _read(table_file(table), teachers):
            join.take(row)
    if missing := [teacher for teacher in teachers if teacher not in join.known]:
        where, names = ", ".join(map(str, tables)), ", ".join(join.known) or "none"
        raise JobError(
            f"distil.teachers: no {', '.join(missing)} in {where}, which has {names}; score the pairs with "
            "it first",
            SETTINGS,
        )
    return join.lessons()


class _Join:
    """Joins rows of tables with the pairs of a training; memory grows with the pairs, not with the tables."""

    def __init__(self, teachers: Sequence[str], questions: Sequence[Sequence[LabelledCandidate]]) -> None:
        self._teachers, self._questions = teachers, questions
        self._by_id: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
        for n, pair in enumerate(pair for rows in questions for pair in rows):
            self._by_id[pair.question_id, pair.candidate_id].append(n)
            self._by_text[fold(pair.question), fold(pair.text)].append(n)
        shape = sum(map(len, questions)), len(teachers)
        self._logits = np.zeros(shape)
        self._match = np.zeros(shape, np.int8)  # _BY_TEXT or _BY_ID; 0 = not found yet
        self._changed = self._unequal = 0
        self.known: dict[str, None] = {}
        """Names of all teachers that the tables have."""

    def take(self, row: _Row) -> None:
        """Put a row's scores into the logits of its pairs."""
        self.known |= dict.fromkeys(row.scores)
        by_id = self._by_id.get(row.ids, []) if row.ids else []
        pairs = self._by_text.get(row.texts, []) if row.texts else by_id
        self._changed += sum(n not in pairs for n in by_id)
        for n in pairs:
            for t, teacher in enumerate(self._teachers):
                if (score := row.scores.get(teacher)) is not None:
                    self._put(row.where, n, t, float(score), _BY_ID if n in by_id else _BY_TEXT)

    def _put(self, where: str, n: int, t: int, score: float, match: int) -> None:
        if not np.isfinite(score):
            raise JobError(
                f"{where}: {self._teachers[t]} is {score}; score the pair again, or leave the row out",
                BAD_DATA,
            )

        if self._match[n, t] == match == _BY_ID and self._logits[n, t] != score:
            before = f"{self._logits[n, t]:g} in a row before"
            raise JobError(
                f"{where}: {self._teachers[t]} is {score:g}, but {before}; leave one of them out", BAD_DATA
            )

        # Equal texts may be of several candidates.
        self._unequal += self._match[n, t] == match and self._logits[n, t] != score
        if self._match[n, t] < match:
            self._logits[n, t], self._match[n, t] = score, match

    def lessons(self) -> Lessons:
        complete: npt.NDArray[np.bool_] = np.all(self._match > 0, axis=1)  # [pairs]
        kept, logits, first = [], [], 0
        for rows in self._questions:
            scored = np.flatnonzero(complete[first : first + len(rows)]).tolist()
            if scored:
                question_logits = np.full((len(rows), len(self._teachers)), np.nan, np.float32)
                question_logits[scored] = self._logits[first : first + len(rows)][scored]
                kept.append(list(rows))
                logits.append(question_logits)
            first += len(rows)

        report = f"{', '.join(self._teachers)}: {self._report(complete)}"
        if not kept:
            raise JobError(
                f"distil.tables: no pair of the training data was scored by all teachers ({report})", BAD_DATA
            )

        return Lessons(kept, logits, report)

    def _report(self, complete: npt.NDArray[np.bool_]) -> str:
        correct = np.array([pair.label > 0 for rows in self._questions for pair in rows], np.bool_)
        by_text = int((self._match[complete] == _BY_TEXT).any(1).sum())
        lost, lost_correct = int((~complete).sum()), int((~complete & correct).sum())
        unscored = int(np.all(self._match == 0, axis=1).sum())
        report = (
            f"{int(complete.sum()):,} of {len(complete):,} pairs, {by_text:,} of them by text; {lost:,} "
            "left out, "
            f"{lost_correct:,} of them correct: {unscored:,} that no teacher has scored, "
            f"{lost - unscored:,} that not all have"
        )

        report += (
            f"; {self._unequal:,} other scores of equal texts, of which the first was taken"
            if self._unequal
            else ""
        )

        return report + (f"; {self._changed:,} ids with another text" if self._changed else "")


def _read(file: Path, teachers: Sequence[str]) -> Iterator[_Row]:
    if file.name == MANIFEST:
        folder = Folder.open(file.parent, SCORED)
        for part in folder.parts:
            columns = ["question_id", "candidate_id", "question", "text", "stages"]
            batches = read_batches(folder.path, part, columns)
            yield from _as_rows(
                folder.path / part.file, batches, ("question_id", "candidate_id"), ("question", "text"), ()
            )
        return

    try:
        with open_parquet(file) as opened:
            names = opened.schema_arrow.names
            ids, texts = (
                tuple(next((n for n in columns if n in names), "") for columns in choices)
                for choices in (_IDS, _TEXTS)
            )
            if not all(ids) and not all(texts):
                raise JobError(
                    f"{file}: give question_id, candidate_id, or question, sentence; it has {names}", BAD_DATA
                )

            stages = "stages" in names
            scores = () if stages else tuple(teacher for teacher in teachers if teacher in names)
            read = {*(n for n in (*ids, *texts) if n), *scores} | ({"stages"} if stages else set())
            batches = opened.iter_batches(batch_size=2_048, columns=sorted(read))
            yield from _as_rows(
                file, batches, ids if all(ids) else None, texts if all(texts) else None, scores
            )
    except (pa.ArrowException, UnicodeDecodeError, OSError) as e:
        raise_unless_damage(e)
        raise JobError(f"{file}: not readable as Parquet: {e}", BAD_DATA) from e


def _as_rows(
    file: Path,
    batches: Iterator[pa.RecordBatch],
    ids: Sequence[str] | None,
    texts: Sequence[str] | None,
    columns: Sequence[str],
) -> Iterator[_Row]:
    number = 0
    for batch in batches:
        for cells in batch.to_pylist():
            where = f"{file}, row {number}"
            number += 1
            if "stages" in cells:
                scores = {
                    stage["stage"]: stage["score"] for stage in cells["stages"] if stage["rank"] is not None
                }
            else:
                scores = {name: _number(where, name, cells[name]) for name in columns}
            yield _Row(where, _pair(cells, ids), _folded(cells, texts), scores)


def _number(where: str, name: str, value: Any) -> float | None:
    if value is None or isinstance(value, int | float):
        return value
    raise JobError(f"{where}: {name} is {value!r}, no number; give logits", BAD_DATA)


def _pair(cells: dict[str, Any], names: Sequence[str] | None) -> tuple[str, str] | None:
    if names is None or any(cells[name] is None for name in names):
        return None
    first, second = (str(cells[name]) for name in names)
    return first, second


def _folded(cells: dict[str, Any], names: Sequence[str] | None) -> tuple[str, str] | None:
    pair = _pair(cells, names)
    return pair and (fold(pair[0]), fold(pair[1]))
