"""Rows of all answers, for people: a question each, with its best answer, what the labels say of it, and
where it is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.schemas.ranked import Answer

Judge: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]
"""(question ids, candidate ids) → True, False, or null for a candidate without a label."""
COLUMNS = (
    "question_id",
    "question",
    "answer",
    "declined",
    "judged",
    "score",
    "probability",
    "title",
    "url",
    "pages",
    "sites",
    "first_date",
    "last_date",
    "source_file",
    "source_offset",
)
"""Those of answers/ whose names these are, and `judged`: 'correct', 'wrong', or empty."""
_ROWS = 8_192


def answer_batches(answers: Folder[Answer], judge: Judge | None) -> Iterator[pa.RecordBatch]:
    """Batches of COLUMNS, in the order of answers/. Without `judge` nothing is judged."""
    read = [name for name in COLUMNS if name != "judged"] + ["candidate_id"]
    for part in answers.parts:
        for batch in read_batches(answers.path, part, read, rows=_ROWS):
            columns = {name: batch.column(name) for name in read}
            columns["judged"] = _judged(columns, judge)
            yield pa.record_batch([columns[name] for name in COLUMNS], names=list(COLUMNS))


def _judged(columns: dict[str, pa.Array], judge: Judge | None) -> pa.Array:
    if judge is None:
        return pa.nulls(len(columns["question_id"]), pa.string())
    return pc.if_else(judge(columns["question_id"], columns["candidate_id"]), "correct", "wrong")
