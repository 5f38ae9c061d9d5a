"""Rerankers whose models others have published: by folder or by name, as they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ranking.context import Part, Reading
from ranking.entry import ContextStage, Entry


class CrossEncoderStage(ContextStage):
    """A stage of a sequence classifier."""

    context: list[Literal["sentence", "title", "previous", "next"]] = Field(
        ["sentence"],
        description="what is read as the candidate's one text, in this order; a title comes first, and a full stop follows it",
    )
    output: Literal["model", "logit", "probability"] = Field(
        "model",
        description="what the score is: what the model's CrossEncoder.predict gives; or the logit, or its sigmoid, whatever "
        "the model's folder says. Of two classes the logit is the second's minus the first's",
    )
    limit: int | None = Field(
        None, ge=8, description="tokens of question and candidate together, after which they are cut; the model's own if absent"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="arithmetic; 'auto' is bf16 on CUDA and on processors that multiply it natively, else fp32"
    )

    @property
    def reading(self) -> Reading:
        """What is read as the candidate's text."""
        return Reading(tuple(self.context))

    @field_validator("context")
    @classmethod
    def _check_context(cls, context: list[Part]) -> list[Part]:
        Reading(tuple(context))
        if "title" in context[1:]:
            raise ValueError(f"context = {context}: the title comes first, as in a passage")
        return context


ENTRIES = (
    Entry(
        "cross_encoder",
        "ranking.pretrained.sequence_classifier:CrossEncoder",
        settings=CrossEncoderStage,
        pretrained="a CrossEncoder, or another model whose architecture ends in ForSequenceClassification",
    ),
)
