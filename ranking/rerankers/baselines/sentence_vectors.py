"""Unit vectors of sentences in two bytes a number, or in one, which `index` stores for `similarity`, so that
it encodes only questions.

    fp16   d numbers of two bytes
    int8   the vector's scale s, a float32, and d numbers of one byte: v ≈ s · q with s = max|v| / 127

A row is one sentence as bytes, in the order of little-endian machines; it depends on the sentence alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from answermill.ranking.context import Reading
from answermill.ranking.entry import StageSettings
from answermill.ranking.reranker import Resources, SentenceEncoder
from answermill.ranking.rerankers.baselines import SimilarityStage
from answermill.schemas.arrays import Bytes, Vectors

VectorForm = Literal["fp16", "int8"]
_STEPS = 127  # from 0 to the largest number of a vector


def row_bytes(form: VectorForm, dimension: int) -> int:
    """Bytes that hold a vector of `dimension` numbers."""
    return 2 * dimension if form == "fp16" else 4 + dimension


def pack(vectors: Vectors, form: VectorForm) -> Bytes:
    """Unit vectors [n, d] as rows [n, `row_bytes`]."""
    if form == "fp16":
        return np.ascontiguousarray(vectors.astype("<f2")).view(np.uint8)
    scale = (np.abs(vectors).max(axis=1, keepdims=True, initial=0) / _STEPS).astype("<f4")  # [n, 1]
    steps = np.rint(vectors / np.where(scale > 0, scale, 1)).clip(-_STEPS, _STEPS).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), steps.view(np.uint8)], axis=1)


def unpack(rows: Bytes, form: VectorForm) -> Vectors:
    """Vectors [n, d] of packed rows; each number is within half a step of the original."""
    if form == "fp16":
        return np.ascontiguousarray(rows).view("<f2").astype(np.float32)
    scale = np.ascontiguousarray(rows[:, :4]).view("<f4").astype(np.float32)  # [n, 1]
    return np.ascontiguousarray(rows[:, 4:]).view(np.int8).astype(np.float32) * scale


def unit(vectors: Vectors) -> Vectors:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def numbered(lists: Iterable[Iterable[tuple[str, ...]]]) -> dict[tuple[str, ...], int]:
    """Each different text of the lists → its number, in the order in which they come.

    >>> numbered([[("a",), ("b",)], [("a",), ("c",)]])
    {('a',): 0, ('b',): 1, ('c',): 2}
    """
    different = dict.fromkeys(text for texts in lists for text in texts)
    return {text: number for number, text in enumerate(different)}


def encode(encoder: SentenceEncoder, reading: Reading, texts: Sequence[tuple[str, ...]]) -> Vectors:
    """Vectors [texts, d] of length 1 of texts, whose parts are in the context's order."""
    if "title" not in reading.context:
        return unit(encoder.encode_sentences([" ".join(filter(None, parts)) for parts in texts]))
    return unit(encoder.encode_passages([(title, " ".join(filter(None, parts))) for title, *parts in texts]))


class StoredVectors(NamedTuple):
    """Sentences as rows of bytes: the fields of `EncodedSentences`."""

    bits: Bytes
    """[sentences, bytes of a row]."""
    lengths: npt.NDArray[np.int64]
    """[sentences]: one row each."""
    cut: npt.NDArray[np.int64]
    """[sentences]: 0, since the encoder does not report tokens left out."""


class VectorCoder:
    """Encodes all sentences as vectors when they are indexed."""

    def __init__(self, encoder: SentenceEncoder, reading: Reading, form: VectorForm) -> None:
        self._encoder, self._form = encoder, form
        self.reading = reading
        self.form: str = form
        self.precision: str = encoder.precision
        self.width = 8 * row_bytes(form, encoder.dimension)

    @classmethod
    def decisive(cls, stage: StageSettings, checkpoint: object = None) -> tuple[str, ...] | None:
        """Form and context; None if the stage stores nothing."""
        if not isinstance(stage, SimilarityStage) or stage.stored is None:
            return None
        return (stage.stored, *stage.context)

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """The coder of the stage. Raises ValueError if the stage stores nothing."""
        stage = resources.stage(SimilarityStage)
        if stage.stored is None:
            raise ValueError(f"stage {stage.key} has no `stored`, so it stores no vectors")
        return cls(resources.encoder(), stage.reading, stage.stored)

    def encode(self, texts: Sequence[tuple[str, ...]]) -> StoredVectors:
        """Encode texts, a row each."""
        rows = pack(encode(self._encoder, self.reading, texts), self._form)
        return StoredVectors(rows, np.ones(len(texts), np.int64), np.zeros(len(texts), np.int64))
