"""The Cascade Transformer (Soldaini & Moschitti, ACL 2020), its schedules and its guarantee."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ranking.cascade.pair_settings import CASCADE, POINTWISE
from ranking.entry import Entry, StageSettings


class CascadeStage(StageSettings):
    """A stage whose model drops candidates at its exits (§4.3.2)."""

    drop: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [],
        description="share of the candidates dropped at each exit but the last: one number for all, or one per exit; "
        "nothing is dropped if empty",
    )


ENTRIES = (
    Entry("cascade", "ranking.cascade.cascade:Cascade", settings=CascadeStage, checkpoint="cascade", training=CASCADE),
    Entry("pointwise", "ranking.cascade.pointwise:Pointwise", checkpoint="pointwise", training=POINTWISE),
    Entry("sequential", "ranking.cascade.sequential:Sequential", settings=CascadeStage, checkpoint="sequential"),
)
