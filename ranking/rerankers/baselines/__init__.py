"""Rerankers without training: word overlap, cosine similarity, completeness of a sentence, the pages that say
the same."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from answermill.ranking.entry import Entry, OneTextStage


class SimilarityStage(OneTextStage):
    """A stage of `similarity`, which can encode a sentence with its title and neighbours."""

    stored: Literal["fp16", "int8"] | None = Field(
        None,
        description="'fp16' or 'int8': `index` stores a vector of each sentence in this form, and `rerank` "
        "encodes questions "
        "only; absent: nothing is stored, and `rerank` encodes the sentences",
    )


ENTRIES = (
    Entry(
        "complete_sentence",
        "answermill.ranking.rerankers.baselines.complete_sentence:CompleteSentence",
        former="complete",
    ),
    Entry("overlap", "answermill.ranking.rerankers.baselines.overlap:Overlap"),
    Entry("same_answer", "answermill.ranking.rerankers.baselines.same_answer:SameAnswer"),
    Entry(
        "similarity",
        "answermill.ranking.rerankers.baselines.similarity:Similarity",
        settings=SimilarityStage,
        uses_encoder=True,
        sentence_codes="answermill.ranking.rerankers.baselines.sentence_vectors:VectorCoder",
        pairwise=True,
    ),
)
