"""Section [transformer] of a training file for the cross-encoders `pointwise` and `cascade`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from answermill.ranking.entry import Training
from answermill.ranking.transformer.body_settings import ReadingSettings
from answermill.schemas.section import Count


class PairSettings(ReadingSettings):
    """Keys for a transformer that reads a question and a sentence together."""

    layers: int | None = Field(
        None, ge=1, description="layers of the transformer, counted from its first; all if absent"
    )
    context: list[Literal["sentence", "title", "previous", "next"]] | None = Field(
        None,
        description="what is read of a candidate, in this order, with separators between: the sentence, its "
        "page's title, the "
        "sentences before and after it in its passage; if absent as the checkpoint that it begins with, "
        "else ['sentence']",
    )
    loss: Literal["bce", "softmax"] = Field(
        "bce",
        description="what labels teach: each pair by itself; or a right candidate against its question's "
        "wrong ones",
    )
    bce_weight: float = Field(
        0.0,
        ge=0,
        description="weight of 'bce' beside 'softmax', which alone leaves open where a score of 0 lies",
    )
    negatives: int | None = Field(
        None,
        ge=1,
        description="wrong candidates of a question in an epoch, drawn anew in each; all if absent",
    )

    @field_validator("loss", mode="before")
    @classmethod
    def _check_loss(cls, loss: Any) -> Any:
        if loss == "margin_mse":
            raise ValueError(
                "'margin_mse' learns from teachers; write it as distil.loss, with distil.tables and teachers"
            )
        return loss

    @model_validator(mode="after")
    def _check_weight(self) -> Self:
        if self.bce_weight and self.loss == "bce":
            raise ValueError(f"bce_weight = {self.bce_weight:g} is for loss = 'softmax'; leave it out")
        return self


class PointwiseSettings(PairSettings):
    """Keys for the monolithic cross-encoder."""

    reranker: Literal["pointwise"] = Field(description="model to train")


class ExitSettings(PairSettings):
    """Keys for a model with exits, at which candidates leave."""

    sampling: Literal["uniform", "round_robin", "early", "all"] = Field(
        "uniform",
        description="which exit a step trains (§4.3.1): a random one, each in turn, at first the early ones "
        "more often, or all",
    )
    self_distillation: float = Field(
        0.0,
        ge=0,
        le=1,
        description="weight of the last exit's probabilities in the loss of the exits before it; for "
        "sampling = 'all'",
    )
    early_epochs: Count = Field(1, description="epochs in which 'early' prefers the early exits")
    drop: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [],
        description="share dropped at each exit but the last when the dev score is computed; one number for "
        "all exits",
    )
    stop_gradient: bool = Field(
        False, description="an exit trains no layer below the exit before it (§4.3.1 finds that this hurts)"
    )

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.self_distillation and self.sampling != "all":
            raise ValueError(
                f"self_distillation = {self.self_distillation:g} is for sampling = 'all'; leave it out"
            )
        return self


class CascadeSettings(ExitSettings):
    """Keys for the Cascade Transformer."""

    reranker: Literal["cascade"] = Field(description="model to train")
    exits: list[int] = Field(
        [],
        description="layers after which there is a classifier, the last layer included (§4.2: 4, 6, 8, 10, "
        "12); required "
        "unless `encoder` is a checkpoint of cascade",
    )


POINTWISE = Training(
    "transformer",
    PointwiseSettings,
    "answermill.ranking.training.pair_builders:build_pointwise",
    start="answermill.ranking.rerankers.cascade.cascade_model:load_pointwise",
    distils=True,
)
CASCADE = Training(
    "transformer",
    CascadeSettings,
    "answermill.ranking.training.pair_builders:build_cascade",
    start="answermill.ranking.rerankers.cascade.cascade_model:load_cascade",
    distils=True,
)
