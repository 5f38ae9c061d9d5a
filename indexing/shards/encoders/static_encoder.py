"""Static encoders: a vector for each token, and for a text the mean of its tokens' vectors.

Reads what sentence-transformers writes for its module `StaticEmbedding`, and the folders of model2vec, where
tokens may share a vector (`mapping`) and have a weight (`weights`). Both are computed as
sentence-transformers computes them, without torch. The weights stay in the file: they are mapped into memory,
so the processes of a machine share one copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answermill.files.model_files import ModelDamaged, json_table, module_types

WEIGHTS, TOKENIZER, MODULES = "model.safetensors", "tokenizer.json", "modules.json"
AT_ONCE = 1_024
"""Texts in one call at which it is fastest."""
_CHUNK = 256
"""Texts that are tokenised together, so that few of their tokens are in memory."""
_DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
_AGAIN = "copy the model's folder again, or give another model"

Vectors = npt.NDArray[np.float32]


def static_part(folder: Path) -> Path | None:
    """The folder of the weights and the tokenizer of a static encoder; None if `folder` holds another model.

    sentence-transformers names the first module in modules.json; a folder of model2vec may have only its
    config.json.
    """
    types = module_types(folder)
    if types:
        if types[0].rpartition(".")[2] != "StaticEmbedding":
            return None
        modules = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        return folder / str(modules[0].get("path", ""))
    return folder if json_table(folder / "config.json").get("model_type") == "model2vec" else None


class StaticEncoder:
    """The vectors of tokens, and the tokenizer, in the folder `static_part` of a static encoder."""

    at_once = AT_ONCE

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit`: tokens after which a text is cut; at most that of the tokenizer itself.

        Raises ValueError, with the file, if one is missing or does not fit the other, ModelDamaged if a
        weight is no number.
        """
        from scipy.sparse import csr_array
        from tokenizers import Tokenizer

        self._array = csr_array
        path = folder / TOKENIZER
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as e:  # tokenizers raises nothing narrower
            raise ValueError(f"{path}: no tokenizer ({e}); {_AGAIN}") from e

        # As sentence-transformers leaves it: nothing is filled up, and its own limit holds.
        own = self._tokenizer.truncation
        self.limit = limit if own is None else min(limit, int(own["max_length"]))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.limit)

        tokens = 1 + max(self._tokenizer.get_vocab().values(), default=-1)
        self._rows, self._mapping, self._weights = _parts(folder / WEIGHTS, tokens)
        self.dimension = self._rows.shape[1]

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: str = "mean") -> Vectors:
        """[texts, d]: the mean over the tokens of each text, which is one part; zeros for a text without
        tokens. The sum of a text's rows is in the order of its tokens, so its bits depend on it alone."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _CHUNK):
            ids, starts = self.tokens([text[0] for text in texts[start : start + _CHUNK]])
            vectors[start : start + _CHUNK] = self._means(ids, starts)
        return vectors

    def tokens(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Tokens of all texts end to end [n], and the place where each text's begin [texts + 1]; no special
        ones."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        starts = np.zeros(len(ids) + 1, np.int32)
        np.cumsum([len(row) for row in ids], out=starts[1:])
        return np.fromiter(chain.from_iterable(ids), np.int32, int(starts[-1])), starts

    def _means(self, ids: npt.NDArray[np.int32], starts: npt.NDArray[np.int32]) -> Vectors:
        weights = np.ones(len(ids), np.float32) if self._weights is None else self._weights[ids]
        rows = ids if self._mapping is None else self._mapping[ids]

        # A sparse product adds row after row to a text's sum, without a copy of the rows.
        shape = (len(starts) - 1, len(self._rows))
        sums: Vectors = self._array((weights, rows, starts), shape=shape) @ self._rows
        return sums / np.maximum(np.diff(starts), 1).astype(np.float32)[:, None]


def _parts(
    path: Path, tokens: int
) -> tuple[Vectors, npt.NDArray[np.int32] | None, npt.NDArray[np.float32] | None]:
    """Vectors [rows, d] in a file of weights; the row of each token, and its weight, where the file has them.

    Raises ValueError, with the file, if it has others, or if a token has no row.
    """
    arrays = mapped(path)
    vectors = arrays.get("embedding.weight", arrays.get("embeddings"))
    if vectors is None or vectors.ndim != 2 or vectors.dtype.kind != "f":
        held = ", ".join(f"{name} {values.dtype.name}{list(values.shape)}" for name, values in arrays.items())
        raise ValueError(
            f"{path}: it has {held or 'nothing'} in place of embedding.weight or embeddings, a table of "
            "floats; give a static encoder that sentence-transformers or model2vec wrote"
        )

    mapping, weights = (arrays.get(name) for name in ("mapping", "weights"))
    rows = len(vectors) if mapping is None else len(mapping)
    if rows < tokens or (weights is not None and len(weights) < tokens):
        raise ValueError(f"{path}: its tokenizer has {tokens:,} tokens, its weights {rows:,}; {_AGAIN}")
    if mapping is not None and len(mapping) and not 0 <= mapping.min() <= mapping.max() < len(vectors):
        raise ValueError(f"{path}: its mapping names vectors beyond the {len(vectors):,} it has; {_AGAIN}")
    if not np.isfinite(vectors).all() or (weights is not None and not np.isfinite(weights).all()):
        raise ModelDamaged(f"{path}: its weights hold NaN or infinity; {_AGAIN}")

    # float32 stays in the file; what is narrower or wider is copied.
    return (
        vectors.astype(np.float32, copy=False),
        None if mapping is None else mapping.astype(np.int32),
        None if weights is None else weights.astype(np.float32),
    )


def mapped(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    """Arrays of a safetensors file, mapped into memory for reading: safetensors itself would copy them.

    Raises ValueError, with the file, if it is missing, damaged, or of types other than floats and integers.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy"):  # checks the header against the file
            pass
    except (OSError, SafetensorError) as e:
        raise ValueError(f"{path}: no safetensors weights ({e}); {_AGAIN}") from e

    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)

    arrays = {}
    for name, entry in sorted(header.items()):
        if entry["dtype"] not in _DTYPES:
            raise ValueError(
                f"{path}: {name} is of type {entry['dtype']}, which is not supported; write the model in F32"
            )
        begin, shape = 8 + size + entry["data_offsets"][0], tuple(entry["shape"])
        arrays[name] = (
            np.memmap(path, _DTYPES[entry["dtype"]], "r", begin, shape) if 0 not in shape else np.zeros(shape)
        )
    return arrays
