"""Section [transformer] of a training file for the multiple-heads student."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from answermill.ranking.entry import Training
from answermill.ranking.rerankers.cascade.pair_settings import ExitSettings


class StudentSettings(ExitSettings):
    """Keys for the multiple-heads student B_b kH_h."""

    reranker: Literal["multihead"] = Field(description="model to train")
    exits: list[int] = Field(
        [], description="layers of the body after which candidates are dropped; none if empty"
    )
    heads: int | None = Field(
        None, ge=1, description="number of heads k; if absent as many as teachers for strategy 'mhs', else 3"
    )
    head_layers: int | None = Field(
        None, ge=1, description="layers of each head (h of B_b kH_h); 1 if absent"
    )
    average: Literal["logits", "probabilities"] | None = Field(
        None, description="which mean over the heads is the score; that of the logits if absent"
    )


TRAINING = Training(
    "transformer",
    StudentSettings,
    "answermill.ranking.training.pair_builders:build_multihead",
    start="answermill.ranking.rerankers.multihead.multihead:load",
    distils=True,
)
