"""Static encoders learnt from another encoder: vectors of tokens whose mean, for a text, points where the
other encoder's vector of the text does.

A text of n tokens is a row of a sparse matrix A [texts, tokens] of the shares of its tokens, its vector by
the other encoder a row of Y [texts, d]. The vectors W [tokens, d] are those that make

    |A W - Y|² + prior · |W - W0|²

least: ridge regression towards W0, where a token's vector is the one that the other encoder gives the token
alone, less if the token is in many texts (Arora et al. 2017, SIF). So a rare token keeps what is known of it,
and a frequent one says what it says in these texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import write_text
from answermill.indexing.shards.encoders.static_encoder import MODULES, TOKENIZER, WEIGHTS, Vectors

PRIOR_TEXTS = 8.0
"""Texts, each with a token once, that say as much of the token as its start does."""
ROUNDS = 10
"""Steps of conjugate gradients. More follow the texts further, and the start less."""
COMMON = 0.01
"""Share of the texts at which a token that is in them starts with half of its weight."""
_LIBRARY = "sentence_transformers.models"


def bags(ids: npt.NDArray[np.int32], starts: npt.NDArray[np.int32], tokens: int) -> Any:
    """The sparse matrix A [texts, tokens]: the share of each token in a text, of tokens end to end and the
    places where each text's begin.

    >>> bags(np.array([2, 0, 2, 2, 2]), np.array([0, 1, 5]), 3).toarray().tolist()
    [[0.0, 0.0, 1.0], [0.25, 0.0, 0.75]]
    """
    from scipy.sparse import csr_array

    lengths = np.diff(starts)
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    rows = csr_array((shares, ids, starts), shape=(len(lengths), tokens))
    rows.sum_duplicates()
    return rows


def start_of(alone: Vectors, texts: Any, targets: Vectors) -> Vectors:
    """W0 [tokens, d]: the vectors of single tokens `alone`, less their mean, each by the weight
    COMMON / (COMMON + share of the texts that hold it); all by the one factor that brings texts A nearest to
    `targets`."""
    share = np.bincount(texts.indices, minlength=len(alone)) / max(1, texts.shape[0])
    start = (alone - alone.mean(axis=0)) * (COMMON / (COMMON + share)).astype(np.float32)[:, None]

    means = texts @ start
    energy = float((means * means).sum())
    scaled: Vectors = start * np.float32((means * targets).sum() / energy if energy else 1.0)
    return scaled


def fit(texts: Any, targets: Vectors, start: Vectors) -> Vectors:
    """W [tokens, d], from A, Y and W0: ROUNDS of conjugate gradients from the start, for all columns at once.

    The same input gives the same bits, on any number of threads.
    """
    # A token that is once in a text of n adds 1/n² to its diagonal of AᵀA: the prior's unit.
    lengths = np.diff(texts.indptr)
    prior = np.float32(PRIOR_TEXTS / max(1.0, float(np.median(lengths))) ** 2)

    turned = texts.T.tocsr()
    diagonal = np.bincount(texts.indices, texts.data**2, minlength=len(start)) + prior
    scale = (1 / diagonal).astype(np.float32)[:, None]

    change = np.zeros_like(start)
    residual = turned @ (targets - texts @ start)
    direction = scale * residual
    gain = (residual * direction).sum(axis=0)
    for _ in range(ROUNDS):
        image = turned @ (texts @ direction) + prior * direction
        step = gain / np.maximum((direction * image).sum(axis=0), np.float32(1e-20))
        change += step * direction
        residual -= step * image

        better = scale * residual
        before, gain = gain, (residual * better).sum(axis=0)
        direction = better + (gain / np.maximum(before, np.float32(1e-20))) * direction

    return start + change


def write_static(folder: Path, vectors: Vectors, tokenizer: Path) -> None:
    """Write a static encoder whose texts have vectors of length 1, as sentence-transformers reads it: the
    vectors of tokens [tokens, d], and the tokenizer.json of another model, which cuts nothing."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    save_file({"embedding.weight": np.ascontiguousarray(vectors, np.float32)}, folder / WEIGHTS)
    cutting = Tokenizer.from_file(str(tokenizer))
    cutting.no_truncation()
    cutting.no_padding()
    cutting.save(str(folder / TOKENIZER), pretty=False)

    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{_LIBRARY}.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{_LIBRARY}.Normalize"},
    ]
    write_text(folder / MODULES, json.dumps(modules, indent=1) + "\n")
