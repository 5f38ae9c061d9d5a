"""A data set of labelled candidates, as tests of evaluation read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from answermill.schemas.labels import LabelledCandidate


def write_labelled(file: Path, questions: Iterable[tuple[str, str, Sequence[int]]]) -> Path:
    """Write the candidates of questions (id, text, a label for each candidate) to a Parquet file."""
    rows = [
        LabelledCandidate(question, asked, f"{question}-{n}", "d", "", n, f"Sentence {n}.", label)
        for question, asked, labels in questions
        for n, label in enumerate(labels)
    ]
    pq.write_table(LabelledCandidate.table(rows), file)
    return file


def write_three_each(folder: Path) -> Path:
    """Write two questions with three candidates each, of which one is right: q1's second, q2's third."""
    return write_labelled(
        folder / "set.parquet", [("q1", "Question 1?", (0, 1, 0)), ("q2", "Question 2?", (0, 0, 1))]
    )
