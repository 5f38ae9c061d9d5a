"""Scores that were computed elsewhere, such as a language model's: a Parquet file with a row for each
question and candidate.

Reads sentences, writes sentences. A row belongs to the candidate with its question_id and candidate_id (or
sentence_id). In a table without ids of candidates it belongs to those of its question with its text, apart
from white space at the ends. Two rows of one candidate must have one score.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.parquet_files import open_parquet
from answermill.ranking.entry import FileMissing
from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.pretrained import ScoresStage
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList

_BATCH = 1 << 16  # rows


class ScoresWrong(RuntimeError):
    """A table holds no usable score where one is needed. The message names the table, and the row or the
    candidate."""

    exit_code = 65


class StoredScores:
    """Reranker by the table's score. A missing score is the lowest of the list, or 0 if the list has none,
    and is counted."""

    name: ClassVar[str] = "scores"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, table: ScoreTable, refuse: bool = False) -> None:
        """`refuse`: raise ScoresWrong if a score is missing."""
        self._table, self._refuse = table, refuse
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(ScoresStage)
        return cls(ScoreTable(resources.path(stage.table), stage.column), stage.missing == "refuse")

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(ranked, self._scores(ranked), self.name) for ranked in lists]

    def _scores(self, ranked: RankedList) -> list[float]:
        known = [self._table.score(ranked.question.question_id, candidate) for candidate in ranked.candidates]
        missing = [
            candidate for candidate, score in zip(ranked.candidates, known, strict=True) if score is None
        ]
        if missing and self._refuse:
            raise ScoresWrong(
                f"{self._table.path}: no score for {len(missing)} of {len(known)} candidates of question "
                f"{ranked.question.question_id}, e.g. {missing[0].candidate_id}; score them, or set missing "
                "= 'count'"
            )

        self._costs.update(candidates=len(known), without_score=len(missing))
        lowest = min((score for score in known if score is not None), default=0.0)
        return [lowest if score is None else score for score in known]

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, and candidates that the table lacks."""
        costs, self._costs = self._costs, Counter()
        return costs


class ScoreTable:
    """Scores of a file, in memory."""

    def __init__(self, path: Path, column: str) -> None:
        """Raises ValueError if the file is no Parquet or lacks a column, FileMissing if there is none;
        ScoresWrong if it is damaged, if a row has no id or no finite score, or if two rows of one candidate
        differ."""
        self.path = path
        self._scores: dict[str, dict[str, float]] = {}  # question → candidate → score

        with _opened(path) as file:
            names = file.schema_arrow.names
            known = [name for name in ("candidate_id", "sentence_id", "text") if name in names]
            if missing := [name for name in ("question_id", column) if name not in names]:
                raise ValueError(
                    f"{path}: no column {missing[0]!r}; it has {', '.join(names)}; name it with `column`"
                )
            if not known:
                raise ValueError(f"{path}: no column candidate_id or text that says whose scores they are")

            self._key: Callable[[Candidate], str] = _text if known[0] == "text" else _id

            for row, question, candidate, score in _rows(path, file, ["question_id", known[0], column]):
                if not isinstance(question, str) or not isinstance(candidate, str) or not _is_number(score):
                    raise ScoresWrong(
                        f"{path}, row {row}: question_id {question!r}, {known[0]} {candidate!r}, {column} "
                        f"{score!r}; "
                        "a row needs two texts and a number"
                    )

                name = candidate.strip() if known[0] == "text" else candidate
                if self._scores.setdefault(question, {}).setdefault(name, float(score)) != float(score):
                    raise ScoresWrong(
                        f"{path}, row {row}: {candidate!r} of question {question} has another score in a "
                        "row before; "
                        "leave one of them out"
                    )

    def score(self, question_id: str, candidate: Candidate) -> float | None:
        """Score of a candidate; None if the table has none."""
        candidate_scores: Mapping[str, float] = self._scores.get(question_id, {})
        return candidate_scores.get(self._key(candidate))


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return open_parquet(path)
    except FileNotFoundError as e:
        raise FileMissing(f"{path}: no such file; give a Parquet file of scores") from e
    except (pa.ArrowException, OSError) as e:
        raise ValueError(f"{path}: not readable as Parquet: {e}") from e


def _rows(
    path: Path, file: pq.ParquetFile, columns: list[str]
) -> Iterator[tuple[int, object, object, object]]:
    """(row from 0, question, candidate, score) of each row."""
    row = 0
    try:
        for batch in file.iter_batches(_BATCH, columns=columns):
            for values in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                yield row, *values
                row += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise ScoresWrong(f"{path}: damaged in row {row} or after it: {e}") from e


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _id(candidate: Candidate) -> str:
    return candidate.candidate_id


def _text(candidate: Candidate) -> str:
    return candidate.text.strip()
