"""Fusion: a stage that orders by a weighted sum of known scores, those of retrieval and of the stages
before."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from answermill.ranking.entry import Entry, FileName, StageSettings

WeightTable = Annotated[dict[str, float], Field(min_length=1)]
"""Name of a score → its weight."""


class WeighedStage(StageSettings):
    """A stage that weighs known scores; `ranking/rerankers/blend/weights.py` loads the weights of these
    keys."""

    weights: WeightTable | None = Field(
        None,
        description="weight of each score, e.g. {cosinet = 1.0, bm25 = 0.5}: a stage before this one, bm25, "
        "dense, fused or "
        "log_rank; each score is standardised within the list first. In a model with exits, by whose sum "
        "candidates leave "
        "there, the exit's own score too: exit",
    )
    weights_file: Annotated[str | None, FileName(required=True)] = Field(
        None, description="file of fitted weights, relative to the job file, in place of `weights`"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.weights is not None and self.weights_file is not None:
            raise ValueError("`weights` and `weights_file` are both given; leave one out")
        if self.weights is not None and not any(self.weights.values()):
            raise ValueError("every weight is 0, which orders nothing; give at least one another")
        return self


class BlendStage(WeighedStage):
    """A stage that orders by the weighted sum alone."""

    @model_validator(mode="after")
    def _has_weights(self) -> Self:
        if self.weights is None and self.weights_file is None:
            raise ValueError(
                f"{self.reranker} needs `weights`, such as {{cosinet = 1.0, bm25 = 1.0}}, or `weights_file`"
            )
        return self


ENTRIES = (
    Entry("blend", "answermill.ranking.rerankers.blend.blend:Blend", settings=BlendStage),
    Entry("blend_passages", "answermill.ranking.rerankers.blend.blend:BlendPassages", settings=BlendStage),
)
