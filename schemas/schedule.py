"""Records of `answermill tune`: a dev set's scores at every exit of a cascade, and costs and quality of drop
schedules."""

from __future__ import annotations

import pyarrow as pa

from answermill.schemas.record import Record, column, record


@record
class ExitScore(Record):
    """One candidate of one question, scored by every classifier of a cascade that drops nothing."""

    question_id: str = column(pa.string(), "LabelledCandidate.question_id")
    candidate_id: str = column(pa.string(), "LabelledCandidate.candidate_id")
    position: int = column(
        pa.int32(), "place in the list that came in, from 0; of equal scores the later one is dropped first"
    )
    label: int = column(pa.int8(), "1 = answers the question, 0 = does not")
    tokens: int = column(pa.int32(), "tokens of question and candidate that go through the layers")
    exits: tuple[int, ...] = column(
        pa.list_(pa.int32()), "layers after which there is a classifier; the same in every row"
    )
    scores: tuple[float, ...] = column(
        pa.list_(pa.float64()), "score after each of these layers, rounded as for ordering"
    )


@record
class ScheduleScore(Record):
    """One drop schedule on one dev set. Metrics are means over the answerable questions, exact under ties, 0
    to 1."""

    drops: tuple[float, ...] = column(
        pa.list_(pa.float64()), "share of a question's candidates that leaves at each exit but the last"
    )
    cost: float = column(pa.float64(), "layers x candidates, relative to all candidates through all layers")
    token_cost: float = column(pa.float64(), "layers x tokens, likewise")
    p_at_1: float = column(pa.float64(), "P@1; what was dropped comes last, tied")
    map: float = column(pa.float64(), "MAP")
    mrr: float = column(pa.float64(), "MRR")
    ndcg_at_10: float = column(pa.float64(), "nDCG@10")
    lost: int = column(pa.int32(), "answerable questions that lost every correct candidate")
    loss: float = column(pa.float64(), "`lost` as a share of the answerable questions")
