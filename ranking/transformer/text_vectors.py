"""Vectors of whole texts by the packed encoder, for the dense index and `similarity`.

A vector depends on its text alone, not on the other texts of the call (see `LayeredEncoder`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from answermill.ranking.transformer.devices import (
    BATCH_TOKENS,
    Arriving,
    TokenBudget,
    cores,
    dtype_of,
    texts_at_once,
)
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.published.published_tokenizer import published_tokeniser
from answermill.schemas.arrays import Precision


class PackedTransformer:
    """Transformer and tokenizer of a folder. `limit`: tokens after which a text is cut, special ones
    included."""

    def __init__(
        self,
        folder: Path,
        limit: int,
        device: str,
        precision: Precision,
        tokeniser: Tokeniser | None = None,
    ) -> None:
        """`tokeniser`: that of `packed_tokeniser`, if it is loaded already. Raises ValueError, with the
        folder, if it holds a model or tokenizer that is not supported here."""
        self._tokeniser = tokeniser or published_tokeniser(folder, limit)
        self._encoder = LayeredEncoder.load(folder).for_inference(device, dtype_of(precision, device))
        self._device = device
        # The layers' budget is another, which a trial measures.
        self._budget = TokenBudget(BATCH_TOKENS[device], None)
        self.dimension = self._encoder.shape.width
        self.at_once = texts_at_once(device, limit)

    def encode(
        self, texts: Sequence[tuple[str, ...]], pooling: Literal["mean", "cls"]
    ) -> npt.NDArray[np.float32]:
        """[texts, d], in the order of the texts. A text is one part, or two with a separator between them.

        `pooling`: the mean over a text's tokens, or the first token's encoding.
        """
        vectors = np.empty((len(texts), self.dimension), np.float32)
        tokenised = self._tokeniser.pairs(texts)
        arriving = []
        together = cores(self._device)
        batches = deque(tokenised.batches(together * self._budget.tokens))

        # If memory runs out, the rest is cut into batches half as large.
        with torch.inference_mode():
            while batches:
                rows = batches.popleft()
                try:
                    arriving.append((rows, self._arriving(tokenised.pack(rows), pooling)))
                except torch.OutOfMemoryError:
                    if len(rows) == 1:
                        raise
                    self._budget.run_out(int(tokenised.lengths[rows].sum()))
                    left = np.concatenate([rows, *batches])
                    batches = deque(tokenised.batches(together * self._budget.tokens, left))

        # Copies from a card arrive while it computes the next batch.
        for rows, values in arriving:
            vectors[rows] = values.numpy()
        return vectors

    def _arriving(self, batch: Packed, pooling: Literal["mean", "cls"]) -> Arriving:
        """[texts, d] of a batch."""
        tokens, first_only = batch.to(self._device), pooling == "cls"
        hidden = self._encoder.embed(tokens)  # [n, d]
        hidden = self._encoder.run_through(self._encoder.layers, hidden, tokens, first_only)
        hidden = self._encoder.normalised(hidden)
        return Arriving(hidden.float() if first_only else pool(hidden, tokens))


def packed_tokeniser(folder: Path, limit: int) -> Tokeniser | str:
    """Tokenizer of a folder that the packed encoder computes as Hugging Face's own forward does, or why it
    does not."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        shape = Shape.of(config)
    except KeyError as e:
        return f"its config.json lacks {e}"
    except (TypeError, ValueError) as e:
        return str(e)

    if config.get("projection_dim"):
        return "it projects its vectors (projection_dim)"

    for name in ("model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            return f"it has no {name}"

    try:
        tokeniser = published_tokeniser(folder, limit)
    except ValueError as e:
        return str(e)
    if tokeniser.rows > shape.vocabulary:
        return f"its tokenizer has {tokeniser.rows:,} tokens, its weights {shape.vocabulary:,}"
    return tokeniser
