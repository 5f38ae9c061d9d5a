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

    stored: Literal["fp16", "int8"] | None = Field(
        None,
        description="'fp16' or 'int8': `index` stores a vector of each sentence in this form, and `rerank` encodes questions "
        "only; absent: nothing is stored, and `rerank` encodes the sentences",
    )

    @property
    def reading(self) -> Reading:
        """What it encodes as one text."""
        return Reading(tuple(self.context))

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
    Entry(
        "similarity",
        "ranking.baselines.similarity:Similarity",
        settings=SimilarityStage,
        uses_encoder=True,
        sentence_codes="ranking.baselines.sentence_vectors:VectorCoder",
    ),
)
