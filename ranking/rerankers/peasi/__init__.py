"""PEASI: passage reranker and in-place sentence extractor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from answermill.ranking.entry import ContextStage, Entry, StageBefore, StageSettings
from answermill.ranking.rerankers.peasi.passage_settings import TRAINING

PASSAGE_RERANKER, EXTRACTOR, IN_PLACE = "peasi.pr", "peasi.easi", "peasi"
Score = Literal["confidence", "log_product", "log_odds"]


class ExtractorStage(StageSettings):
    """A stage of EASI, which can leave a question without an answer."""

    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="least confidence of an answer; a question whose answers have less gets none",
    )

    score: Score = Field(
        "confidence",
        description="what sentences are ranked by: the calibrated probability of being right; log_product: "
        "log p(q, p) + "
        "log p(s | p), which is in the same order, but does not round the surest and the least sure to one "
        "number; log_odds: "
        "logit p(q, p) + log p(s | p), which still tells passages apart where p(q, p) is near 1 for several "
        "of them",
    )

    def check_scores(self, before: Sequence[StageBefore]) -> None:
        """Check that PR has scored the passages if a threshold, product or odds are set: all are computed
        from its scores."""
        needing = (
            "threshold" if self.threshold is not None else "score" if self.score != "confidence" else None
        )
        if needing and all(stage.reranker != PASSAGE_RERANKER for stage in before):
            raise ValueError(
                f"`{needing}` of {EXTRACTOR} needs passages that {PASSAGE_RERANKER} has scored; "
                f"put a stage of {PASSAGE_RERANKER} before this one, or leave `{needing}` out"
            )


ENTRIES = (
    Entry(
        PASSAGE_RERANKER,
        "answermill.ranking.rerankers.peasi.peasi:PassageReranker",
        settings=ContextStage,
        checkpoint="peasi",
        training=TRAINING,
        pairwise=True,
    ),
    Entry(
        EXTRACTOR,
        "answermill.ranking.rerankers.peasi.peasi:SentenceExtractor",
        settings=ExtractorStage,
        checkpoint="peasi",
        training=TRAINING,
    ),
    Entry(
        IN_PLACE,
        "answermill.ranking.rerankers.peasi.peasi:InPlace",
        settings=ContextStage,
        checkpoint="peasi",
        training=TRAINING,
        pairwise=True,
    ),
)
