"""Hugging Face's own forward over padded texts: for transformers that no packed encoder computes, such as
MPNet or DeBERTa.

Texts of one length class (a multiple of 16 tokens, or the limit) are computed together, in batches that are
filled up to the class's number of rows, so every matrix product has the same shape whatever the other texts
are; libraries may choose their kernels by shape, in bf16 and on a GPU above all. So a text's values depend on
the text alone, unless a card runs out of memory: then the batches have half as many rows from there on, with
a warning.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from answermill.files.model_files import load_pretrained
from answermill.ranking.transformer.devices import BUSY, TokenBudget, texts_at_once
from answermill.schemas.arrays import Precision, Singles

_CLASS = 16  # tokens
# Rows of a batch = this over the class: small, since empty rows cost time.
_BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}


class PaddedModel:
    """A model of transformers, run over tokenised texts."""

    def __init__(self, model: Any, pad: int, device: str, longest: int) -> None:
        """`pad`: token that fills a text up. `longest`: tokens of the longest text, at most the model's
        positions."""
        self._model, self._pad, self._device, self._longest = model.eval().to(device), pad, device, longest
        self._budget = TokenBudget(_BATCH_TOKENS[device], None)
        self._takes_types = "token_type_ids" in inspect.signature(model.forward).parameters

    def run(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        read: Callable[[Any, Tensor], Tensor],
    ) -> Singles:
        """Values [texts, …] in the order of the texts. `read` computes them from the model's output for a
        batch and the batch's mask [rows, length], a row a text."""
        by_class: dict[int, list[int]] = {}
        for number, text in enumerate(ids):
            by_class.setdefault(min(-(-len(text) // _CLASS) * _CLASS, self._longest), []).append(number)

        values: Singles | None = None
        for length, numbers in sorted(by_class.items()):
            start = 0
            while start < len(numbers):
                rows = max(1, self._budget.tokens // length)
                batch = numbers[start : start + rows]
                batch_types = [types[n] for n in batch] if types and self._takes_types else None

                try:
                    batch_values = self._batch([ids[n] for n in batch], batch_types, rows, length, read)
                except torch.OutOfMemoryError:
                    if rows == 1:
                        raise
                    self._budget.run_out(rows * length)
                    continue

                if values is None:
                    values = np.empty((len(ids), *batch_values.shape[1:]), np.float32)
                values[batch] = batch_values[: len(batch)]
                start += rows

        return np.empty((0,), np.float32) if values is None else values

    def _batch(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        rows: int,
        length: int,
        read: Callable[[Any, Tensor], Tensor],
    ) -> Singles:
        """Values of at most `rows` texts, padded to `length` tokens; rows after the last text have no
        meaning."""
        filled = np.full((rows, length), self._pad, np.int64)
        mask = np.zeros((rows, length), np.int64)
        mask[:, 0] = 1
        kinds = np.zeros((rows, length), np.int64)

        for row, text in enumerate(ids):
            filled[row, : len(text)] = text
            mask[row, : len(text)] = 1
            if types is not None:
                kinds[row, : len(text)] = types[row]

        inputs = {"input_ids": filled, "attention_mask": mask} | (
            {"token_type_ids": kinds} if types is not None else {}
        )
        on_device = {name: torch.from_numpy(values).to(self._device) for name, values in inputs.items()}
        with torch.inference_mode(), BUSY.span(torch.device(self._device)):
            result = read(self._model(**on_device), on_device["attention_mask"]).float()
        values: Singles = result.cpu().numpy()

        return values


class PaddedTransformer:
    """Encoder of texts as vectors by any model that transformers' AutoModel loads, or by an encoder of
    DPR."""

    def __init__(self, folder: Path, limit: int, device: str, precision: Precision) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._is_dpr = config.get("model_type") == "dpr"
        self.dimension = int(config.get("projection_dim") or config["hidden_size"])
        self._limit, self.at_once = limit, texts_at_once(device, limit)
        self._tokenizer = load_pretrained("AutoTokenizer", folder)
        kind = config["architectures"][0] if self._is_dpr else "AutoModel"
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        model = load_pretrained(kind, folder, use_safetensors=True, dtype=dtype)
        self._model = PaddedModel(model, self._tokenizer.pad_token_id or 0, device, limit)

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: Literal["mean", "cls"]) -> Singles:
        """[texts, d], in the order of the texts; all texts have one part, or all have two."""
        second = [parts[1] for parts in texts] if len(texts[0]) == 2 else None
        tokens = self._tokenizer(
            [parts[0] for parts in texts], second, truncation=True, max_length=self._limit
        )

        def read(out: Any, mask: Tensor) -> Tensor:
            if self._is_dpr:
                # [rows, d]: the first token, projected if the model has a projection.
                pooled: Tensor = out.pooler_output
                return pooled
            hidden: Tensor = out.last_hidden_state
            if pooling == "cls":
                return hidden[:, 0]
            weight = mask[..., None].float()  # [rows, length, 1]
            return (hidden.float() * weight).sum(1) / weight.sum(1)

        return self._model.run(tokens["input_ids"], tokens.get("token_type_ids"), read)
