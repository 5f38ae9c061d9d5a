"""Scores and vectors that a model has given texts, kept in a folder: a plan that is run again, or another
plan, computes only what is new.

`remember` puts it into a loaded plan. All other code of a stage runs as it is, so the rows are those of the
plan itself, with a cascade's pruning, priors and costs. A score is found by the tokens that the model would
read, a vector by the text, both below the digest of the model's files and the precision, so a checkpoint that
is trained again has a new folder.
"""

from __future__ import annotations

import copy
import hashlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import Encoder, Vectors
from answermill.ranking.plan import Stage
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.support.support_pairs import SupportPairs
from answermill.ranking.transformer.packing import Packed
from testing.harness import say

BLOCK = 2_048
"""Texts that are computed before they are kept."""
MANY = 100
Rows = npt.NDArray[np.floating[Any]]
Keys = npt.NDArray[np.uint64]


class Memory:
    """Rows of numbers by 64-bit keys, in a folder of files; several processes may use it at once. A process
    that opens a folder of more than MANY files joins them."""

    def __init__(self, folder: Path, width: int, dtype: type = np.float64) -> None:
        self._folder = folder
        self._keys: Keys = np.empty(0, np.uint64)
        self._rows: Rows = np.empty((0, width), dtype)
        paths = sorted(folder.glob("*.npz"))
        blocks = []

        for path in paths:
            # Joined by another process.
            with suppress(FileNotFoundError), np.load(path, allow_pickle=False) as block:
                blocks.append((block["keys"], block["rows"]))

        if blocks:
            self._merge(
                np.concatenate([keys for keys, _ in blocks]), np.concatenate([rows for _, rows in blocks])
            )

        if len(paths) > MANY:
            self._write(self._keys, self._rows)
            for path in paths:
                path.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._keys)

    def look_up(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], Rows]:
        """True for the keys that are known, and the rows of these, in the order of the keys."""
        place = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        known = self._keys[place] == keys if len(self._keys) else np.zeros(len(keys), np.bool_)
        return known, self._rows[place[known]]

    def add(self, keys: Keys, rows: Rows) -> None:
        self._write(keys, rows.astype(self._rows.dtype))
        self._merge(keys, rows.astype(self._rows.dtype))

    def _write(self, keys: Keys, rows: Rows) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{uuid.uuid4().hex}"
        with temporary.open("wb") as file:
            np.savez(file, keys=keys, rows=rows)
        temporary.replace(self._folder / f"{temporary.name[1:]}.npz")

    def _merge(self, keys: Keys, rows: Rows) -> None:
        self._keys, first = np.unique(np.concatenate([self._keys, keys]), return_index=True)
        self._rows = np.concatenate([self._rows, rows])[first]


class RememberedCascade:
    """Stand-in for a cascade's model: after `embed` the scores of all exits are in place of the encodings."""

    def __init__(self, model: Any, folder: Path) -> None:
        self._model = model
        self._memory = Memory(folder, len(model.exits))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def encoder(self) -> RememberedCascade:
        return self

    def embed(self, tokens: Packed) -> Tensor:
        """[n, exits]: each text's scores, once for each of its tokens."""
        keys = keys_of(tokens)
        known, rows = self._memory.look_up(keys)
        scores = np.zeros((len(keys), len(self._model.exits)))
        scores[known] = rows
        unknown = np.flatnonzero(~known)
        for start in range(0, len(unknown), BLOCK):
            block = unknown[start : start + BLOCK]
            scores[block] = self._scores(tokens.select(block)[0])
            self._memory.add(keys[block], scores[block])
        if len(unknown):
            say(f"scores of {len(self._memory):,} texts are kept")
        return torch.from_numpy(np.repeat(scores, tokens.lengths, axis=0))

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        return hidden

    def classify(self, hidden: Tensor, tokens: Packed, exit: int) -> Tensor:
        return hidden[tokens.starts[:-1].long(), exit]

    @torch.inference_mode()
    def _scores(self, tokens: Packed) -> Rows:
        hidden, before, columns = self._model.encoder.embed(tokens), 0, []
        for exit, layer in enumerate(self._model.exits):
            hidden = self._model.run(hidden, tokens, before, layer)
            columns.append(self._model.classify(hidden, tokens, exit).cpu().numpy())
            before = layer
        return np.stack(columns, axis=1)


class RememberedEncoder:
    """A dense encoder that encodes each text once."""

    def __init__(self, encoder: Encoder, work: Path) -> None:
        folder = work / f"vectors-{encoder.fingerprint}-{encoder.precision}"
        self._encoder = encoder
        self._questions = Memory(folder / "questions", encoder.dimension, np.float32)
        self._sentences = Memory(folder / "sentences", encoder.dimension, np.float32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return encoded(texts, self._questions, self._encoder.encode_questions)

    def encode_sentences(self, texts: Sequence[str]) -> Vectors:
        return encoded(texts, self._sentences, self._encoder.encode_sentences)

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> Vectors:
        """Vectors of passages, which are kept by (title, text)."""
        pairs = {f"{title}\0{text}": (title, text) for title, text in titles_and_texts}

        def encode(keys: Sequence[str]) -> Vectors:
            return self._encoder.encode_passages([pairs[key] for key in keys])

        return encoded([f"{title}\0{text}" for title, text in titles_and_texts], self._sentences, encode)


def encoded(texts: Sequence[str], memory: Memory, encode: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """[texts, width]: vectors from the memory, after those that it lacks are computed."""
    keys = np.array([key_of(text.encode()) for text in texts], np.uint64)
    known, _ = memory.look_up(keys)
    unknown = {int(keys[n]): texts[n] for n in np.flatnonzero(~known).tolist()}
    items = list(unknown.items())
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        memory.add(np.array([key for key, _ in block], np.uint64), encode([text for _, text in block]))
        say(f"vectors of {len(memory):,} texts are kept")
    return cast(Vectors, memory.look_up(keys)[1])


def remember(plan: Sequence[Stage], work: Path) -> list[Stage]:
    """The plan with cascades, also those that score pairs of candidates, that look their scores up. Other
    stages stay as they are."""
    remembered = []
    for stage in plan:
        reranker = stage.reranker
        if stage.checkpoint is not None:
            name = f"scores-{folder_digest(stage.checkpoint)}"
            if isinstance(reranker, Cascade):
                reranker = remembering(reranker, work, name)
            elif isinstance(reranker, SupportPairs):
                reranker = copy.copy(reranker)
                reranker._ranker = remembering(reranker._ranker, work, name)
        remembered.append(replace(stage, reranker=reranker))
    return remembered


def remembering(cascade: Cascade, work: Path, name: str) -> Cascade:
    """Another cascade of the same model that looks its scores up, with costs of its own, in a folder of the
    name and the precision."""
    twin = copy_of(cascade)
    precision = str(cascade.precision).removeprefix("torch.")
    twin._model = cast(Any, RememberedCascade(cascade._model, work / f"{name}-{precision}"))
    return twin


def copy_of(cascade: Cascade) -> Cascade:
    """Another cascade of the same model, with costs of its own."""
    twin = object.__new__(type(cascade))
    twin.__dict__.update(cascade.__dict__)
    twin._costs = cascade._costs.copy()
    return twin


def keys_of(tokens: Packed) -> Keys:
    """[texts]: keys of each text's token ids and types."""
    ids = torch.stack([tokens.ids, tokens.types], dim=1).to(torch.int32).cpu().numpy()
    ends = np.cumsum(tokens.lengths)
    return np.array([key_of(part.tobytes()) for part in np.split(ids, ends[:-1])], np.uint64)


def key_of(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
