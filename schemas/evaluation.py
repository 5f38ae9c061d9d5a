"""Records of an evaluation, one for each question."""

from __future__ import annotations

import pyarrow as pa

from answermill.schemas.record import Record, column, record


@record
class QuestionScore(Record):
    """One metric of one question that the protocol counts; the mean over the rows of a metric is the reported
    figure."""

    question_id: str = column(
        pa.string(), "of the labels; under 'compat' the first of the questions with this text"
    )
    question: str = column(pa.string(), "the question as asked; '' if neither labels nor scores have it")
    protocol: str = column(pa.string(), "which questions count: 'raw', 'answerable', 'clean' or 'compat'")
    metric: str = column(pa.string(), "e.g. 'MAP', 'P@1'")
    value: float = column(
        pa.float64(), "expectation over the orders of tied candidates, 0 to 1; under 'compat' the best order"
    )
    worst: float = column(pa.float64(), "the worst of these orders")
    best: float = column(pa.float64(), "the best of these orders")
    condensed: float = column(pa.float64(), "`value` with the unjudged candidates taken out of the list")
    candidates: int = column(pa.int32(), "ranked candidates")
    correct: int = column(pa.int32(), "correct candidates, ranked or not")
    answer: str | None = column(
        pa.string(), "text of the first candidate; null if the labels do not have it", default=None
    )
