"""The Cascade Transformer (Soldaini & Moschitti, ACL 2020), its schedules and its guarantee."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from answermill.ranking.entry import Entry, TransformerStage
from answermill.ranking.rerankers.blend import WeighedStage
from answermill.ranking.rerankers.cascade.pair_settings import CASCADE, POINTWISE


class CascadeStage(TransformerStage):
    """A stage whose model drops candidates at its exits (§4.3.2)."""

    drop: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [],
        description="share of the candidates dropped at each exit but the last: one number for all, or one "
        "per exit; "
        "nothing is dropped if empty",
    )


class ExitStage(CascadeStage, WeighedStage):
    """A stage whose candidates leave by their score at the exit together with scores that are known
    before."""

    @model_validator(mode="after")
    def _weights_decide(self) -> Self:
        if (self.weights is not None or self.weights_file is not None) and not any(self.drop):
            raise ValueError(
                "weights decide who leaves at the exits, and nothing is dropped there; give `drop`, or no "
                "weights"
            )
        return self


ENTRIES = (
    Entry(
        "cascade",
        "answermill.ranking.rerankers.cascade.cascade:Cascade",
        settings=ExitStage,
        checkpoint="cascade",
        training=CASCADE,
    ),
    Entry(
        "pointwise",
        "answermill.ranking.rerankers.cascade.pointwise:Pointwise",
        settings=TransformerStage,
        checkpoint="pointwise",
        training=POINTWISE,
        pairwise=True,
    ),
    Entry(
        "sequential",
        "answermill.ranking.rerankers.cascade.sequential:Sequential",
        settings=CascadeStage,
        checkpoint="sequential",
    ),
)
