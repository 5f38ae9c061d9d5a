"""The section [transformer] of a training file for cross-encoders: `pointwise` and `cascade`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ranking.entry import Training
from ranking.transformer.body_settings import BodySettings
from schemas.section import Count


class PairSettings(BodySettings):
    """A transformer that reads a question and a sentence together."""

    layers: int | None = Field(None, ge=1, description="layers of the transformer, counted from its first; all if absent")


class PointwiseSettings(PairSettings):
    """The monolithic cross-encoder."""

    reranker: Literal["pointwise"] = Field(description="model to train")


class ExitSettings(PairSettings):
    """A model with exits, where candidates leave."""

    sampling: Literal["uniform", "round_robin", "early"] = Field(
        "uniform",
        description="which exit a step trains (§4.3.1): a random one, each in turn, or at first the early ones more often",
    )
    early_epochs: Count = Field(1, description="epochs in which 'early' prefers the early exits")
    drop: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [], description="share dropped at each exit but the last when the dev score is computed; one number for all exits"
    )
    stop_gradient: bool = Field(
        False, description="an exit trains no layer below the exit before it (§4.3.1 finds that this hurts)"
    )


class CascadeSettings(ExitSettings):
    """The Cascade Transformer."""

    reranker: Literal["cascade"] = Field(description="model to train")
    exits: list[int] = Field(
        [],
        description="layers after which there is a classifier, the last layer included (§4.2: 4, 6, 8, 10, 12); required "
        "unless `encoder` is a checkpoint of cascade",
    )


POINTWISE = Training(
    "transformer",
    PointwiseSettings,
    "ranking.training.pair_builders:build_pointwise",
    start="ranking.cascade.cascade_model:load_pointwise",
    distils=True,
)
CASCADE = Training(
    "transformer",
    CascadeSettings,
    "ranking.training.pair_builders:build_cascade",
    start="ranking.cascade.cascade_model:load_cascade",
    distils=True,
)
