"""`similarity` by an encoder of the stage's own: any sentence-transformers model of a transformer, a pooling
(mean or first token) and perhaps a normalisation, with the prompts that its folder states.

Reads sentences, writes sentences. It encodes the same texts, and `index` stores the same vectors, as in
`baselines/similarity.py`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from answermill.ranking.entry import StageSettings
from answermill.ranking.reranker import Resources, SentenceEncoder
from answermill.ranking.rerankers.baselines.sentence_vectors import VectorCoder
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.ranking.rerankers.pretrained import BiEncoderStage

_NO_LIMIT = 1 << 20  # tokens: the encoder's own limit is lower


class BiEncoder(Similarity):
    """Reranker by cos(question, sentence) of the stage's encoder, in [-1, 1]."""

    name: ClassVar[str] = "bi_encoder"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(BiEncoderStage)
        return cls(_encoder(resources), stage.reading, stage.stored, resources.codes)


class PublishedVectorCoder(VectorCoder):
    """Encodes all sentences as vectors of the stage's encoder when they are indexed."""

    @classmethod
    def decisive(cls, stage: StageSettings, checkpoint: object = None) -> tuple[str, ...] | None:
        """Form and context, limit and precision; None if the stage stores nothing."""
        kept = super().decisive(stage, checkpoint)
        if kept is None or not isinstance(stage, BiEncoderStage):
            return None
        return (*kept, f"limit {stage.limit}", stage.precision)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(BiEncoderStage)
        if stage.stored is None:
            raise ValueError(f"stage {stage.key} has no `stored`, so it stores no vectors")
        return cls(_encoder(resources), stage.reading, stage.stored)


def _encoder(resources: Resources) -> SentenceEncoder:
    stage = resources.stage(BiEncoderStage)
    return resources.encoder_of(
        str(resources.folder()), max_tokens=stage.limit or _NO_LIMIT, precision=stage.precision
    )
