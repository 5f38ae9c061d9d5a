"""Rerankers without training: word overlap, cosine similarity, completeness of a sentence."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ranking.context import Part, Reading
from ranking.entry import ContextStage, Entry


class SimilarityStage(ContextStage):
    """A stage of `similarity`, which can encode a sentence with its title and neighbours."""

    context: list[Literal["sentence", "title", "previous", "next"]] = Field(
        ["sentence"],
        description="what is encoded as one text, in this order; a title comes first, and stands before the rest as it does "
        "before an indexed passage's text",
    )

    @field_validator("context")
    @classmethod
    def _check_context(cls, context: list[Part]) -> list[Part]:
        Reading(tuple(context))
        if "title" in context[1:]:
            raise ValueError(f"context = {context}: the title comes first, as in an indexed passage")
        return context


ENTRIES = (
    Entry("complete", "ranking.baselines.complete:Complete"),
    Entry("overlap", "ranking.baselines.overlap:Overlap"),
    Entry("similarity", "ranking.baselines.similarity:Similarity", settings=SimilarityStage, uses_encoder=True),
)
