"""Hugging Face's own forward over padded texts: for transformers that no packed encoder computes, such as MPNet.

Texts of one length class (a multiple of 16 tokens) are encoded together, in batches that are filled up to the class's number
of rows, so every matrix product has the same shape whatever the other texts are; libraries may choose their kernels by shape,
in bf16 and on a GPU above all. So a text's vector depends on the text alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from indexing.shards.dense import Pooling, Precision, Vectors
from schemas.model_files import load_pretrained

_CLASS = 16  # tokens
_BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}  # rows of a batch = this over the class: small, since empty rows cost time


class PaddedTransformer:
    """Any model that transformers' AutoModel loads, or an encoder of DPR."""

    def __init__(self, folder: Path, limit: int, device: str, precision: Precision) -> None:
        import torch

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._is_dpr = config.get("model_type") == "dpr"
        self.dimension = int(config.get("projection_dim") or config["hidden_size"])
        self._torch, self._device, self._limit = torch, device, limit
        self._tokenizer = load_pretrained("AutoTokenizer", folder)
        self._pad = self._tokenizer.pad_token_id or 0
        kind = config["architectures"][0] if self._is_dpr else "AutoModel"
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._model: Any = load_pretrained(kind, folder, use_safetensors=True, dtype=dtype).eval().to(device)

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: Pooling) -> Vectors:
        """[texts, d], in the order of the texts; all of them have one part, or all have two."""
        second = [parts[1] for parts in texts] if len(texts[0]) == 2 else None
        tokens = self._tokenizer([parts[0] for parts in texts], second, truncation=True, max_length=self._limit)
        ids, types = tokens["input_ids"], tokens.get("token_type_ids")
        by_class: dict[int, list[int]] = {}
        for number, text in enumerate(ids):
            by_class.setdefault(-(-len(text) // _CLASS) * _CLASS, []).append(number)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for length, numbers in sorted(by_class.items()):
            rows = max(1, _BATCH_TOKENS[self._device] // length)
            for start in range(0, len(numbers), rows):
                batch = numbers[start : start + rows]
                batch_types = [types[n] for n in batch] if types else None
                vectors[batch] = self._batch([ids[n] for n in batch], batch_types, rows, length, pooling)[: len(batch)]
        return vectors

    def _batch(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        rows: int,
        length: int,
        pooling: Pooling,
    ) -> Vectors:
        """Vectors [rows, d] of at most `rows` texts, padded to `length` tokens; rows after the last text mean nothing."""
        torch = self._torch
        filled = np.full((rows, length), self._pad, np.int64)
        mask = np.zeros((rows, length), np.int64)
        mask[:, 0] = 1
        kinds = np.zeros((rows, length), np.int64)
        for row, text in enumerate(ids):
            filled[row, : len(text)] = text
            mask[row, : len(text)] = 1
            if types is not None:
                kinds[row, : len(text)] = types[row]
        inputs = {"input_ids": filled, "attention_mask": mask} | ({"token_type_ids": kinds} if types is not None else {})
        on_device = {name: torch.from_numpy(values).to(self._device) for name, values in inputs.items()}
        with torch.inference_mode():
            out = self._model(**on_device)
            if self._is_dpr:
                pooled = out.pooler_output.float()  # [rows, d]: the first token, projected if the model says so
            elif pooling == "cls":
                pooled = out.last_hidden_state[:, 0].float()
            else:
                weight = on_device["attention_mask"][..., None].float()  # [rows, length, 1]
                pooled = (out.last_hidden_state.float() * weight).sum(1) / weight.sum(1)
            vectors: Vectors = pooled.cpu().numpy()
        return vectors
