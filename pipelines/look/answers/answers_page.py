"""answers.html: all answers in a table, which a small script filters; without scripts it is a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from answermill.pipelines.look.report.pages.templates import page

SHOWN = 10_000
"""Most questions on the page: more would be slow in a browser."""


def answers_page(run: str, questions: int, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Pieces of the document. `run`: its name for people; `questions`: the number that it has asked."""
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    return page(
        "answers.html.j2",
        run=run,
        questions=questions,
        shown=min(questions, SHOWN),
        rows=(with_state(row) for _, row in zip(range(SHOWN), rows, strict=False)),
    )


def with_state(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its `state`: 'answered', 'declined', or 'none'.

    >>> with_state({"answer": None, "declined": "It is 4."})["state"]
    'declined'
    """
    state = "answered" if row["answer"] is not None else "declined" if row["declined"] is not None else "none"
    return row | {"state": state}
