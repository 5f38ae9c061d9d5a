"""The vectors of passages that an earlier run's shards hold, in place of encoding the same texts again:
`index.since`.

A vector is taken over if title and text are the same, on whatever page, and the encoder is the same: its
fingerprint, which stands for weights, tokenizer, pooling and limit, and its precision. A text's vector
depends on the text alone, so the shards equal those of a run without `since`. Vectors that were stored as
fp16 or int8 are taken over by a run that stores them in the same form, and by no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.indexing.shards.shard_builder import PassageEncoder
from answermill.indexing.shards.shard_files import CODED, DENSE, PASSAGES, check_files, read_shard_file
from answermill.indexing.shards.vectors.exact_index import DenseIndex
from answermill.indexing.shards.vectors.stored_vectors import NUMBERS, SCALES, Form, StoredVectors
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.schemas.corpus import Passage

_OPEN = 8
"""Shards of the earlier run whose vectors are in memory."""
_FILES = (PASSAGES, DENSE, f"{CODED}/{NUMBERS}", f"{CODED}/{SCALES}")

Vectors = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]
"""[texts, 2]: 16 bytes of a digest of each."""
Texts = Sequence[tuple[str, str]]
"""(title, text) of passages."""


class KnownVectors:
    """An encoder of passages that encodes only what is not known."""

    def __init__(
        self,
        encoder: PassageEncoder,
        keys: Keys,
        places: npt.NDArray[np.int64],
        open_shard: Callable[[int], Any],
    ) -> None:
        """`keys` of the texts whose vectors are known, and their `places` [texts, 2]: shard and row. A shard
        that is opened is a DenseIndex or StoredVectors."""
        self._encoder = encoder
        self.name, self.dimension, self.precision = encoder.name, encoder.dimension, encoder.precision
        self.at_once = encoder.at_once
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        self._keys, self._places = keys[order], places[order]
        self._index = lru_cache(_OPEN)(open_shard)

    @classmethod
    def of_shards(
        cls,
        encoder: PassageEncoder,
        shards: Folder[Passage],
        stored: Form | None = None,
        only: Mapping[int, npt.NDArray[np.int64]] | None = None,
    ) -> KnownVectors:
        """Vectors of an earlier run.

        Reads the texts of all shards by this encoder, and of those whose numbers are in `only` no rows but
        these; 32 bytes a passage stay in memory. `stored`: form in which the vectors will be stored; None for
        an exact index. Raises ShardDamaged if a file is not the one that was written.
        """
        folders: list[Path] = []
        keys, places = [np.empty((0, 2), np.uint64)], [np.empty((0, 2), np.int64)]

        for number, part in enumerate(shards.parts):
            wanted = (only or {}).get(number)
            if wanted is not None and not len(wanted):
                continue
            folder = fetch_shard(shards.path / part.file, part.sha256, _FILES.__contains__)
            contents = read_shard_file(folder, part.sha256)
            former = contents.encoder
            if former is None or (former.fingerprint, former.precision) != (
                encoder.fingerprint,
                encoder.precision,
            ):
                continue
            if contents.coded is not None and contents.coded.stored != stored:
                continue

            check_files(folder, {name: file for name, file in contents.files.items() if name in _FILES})
            rows = np.arange(contents.rows) if wanted is None else wanted
            keys.append(_keys_of(folder / PASSAGES, rows))
            places.append(np.stack([np.full_like(rows, len(folders)), rows], 1))
            folders.append(folder)

        def open_shard(shard: int) -> DenseIndex | StoredVectors:
            return _vectors(folders[shard])

        return cls(encoder, np.concatenate(keys), np.concatenate(places), open_shard)

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    def knows(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """[texts]: True where a shard has the vector."""
        is_known: npt.NDArray[np.bool_] = self._find(texts)[:, 0] >= 0
        return is_known

    def encode_passages(self, titles_and_texts: Texts) -> Vectors:
        """Vectors of the texts, [texts, dimension], in their order."""
        places = self._find(titles_and_texts)
        vectors = np.empty((len(places), self.dimension), np.float32)
        new = np.flatnonzero(places[:, 0] < 0)
        if len(new):
            vectors[new] = self._encoder.encode_passages([titles_and_texts[n] for n in new.tolist()])
        for shard in np.unique(places[places[:, 0] >= 0, 0]).tolist():
            rows = np.flatnonzero(places[:, 0] == shard)
            index = self._index(shard)  # held, since its vectors are a view of its memory
            vectors[rows] = (index.vectors if isinstance(index, DenseIndex) else index)[places[rows, 1]]
        return vectors

    def _find(self, texts: Texts) -> npt.NDArray[np.int64]:
        """[texts, 2]: shard and row of each text's vector, or -1."""
        keys = _keys(texts)
        places = np.full((len(keys), 2), -1, np.int64)
        if len(self._keys):
            first = np.minimum(np.searchsorted(self._keys[:, 0], keys[:, 0]), len(self._keys) - 1)
            is_known = (self._keys[first] == keys).all(axis=1)
            places[is_known] = self._places[first[is_known]]
        return places


def _vectors(folder: Path) -> DenseIndex | StoredVectors:
    """The vectors of a shard, of an exact index or stored."""
    if (folder / DENSE).is_file():
        return DenseIndex.open(folder / DENSE)
    return StoredVectors.open(folder / CODED)


def _keys_of(passages: Path, rows: npt.NDArray[np.int64]) -> Keys:
    """The keys of these rows, which ascend."""
    keys, first = [np.empty((0, 2), np.uint64)], 0
    with pq.ParquetFile(passages, page_checksum_verification=True) as file:
        for batch in file.iter_batches(columns=["title", "text"]):
            own = rows[slice(*np.searchsorted(rows, [first, first + len(batch)]))] - first
            keys.append(keys_of_batch(batch.take(own)))
            first += len(batch)
    return np.concatenate(keys)


def keys_of_batch(batch: pa.RecordBatch) -> Keys:
    """The keys of a batch's columns title and text."""
    titles, texts = (batch.column(name).to_pylist() for name in ("title", "text"))
    return _keys(list(zip(titles, texts, strict=True)))


def _keys(texts: Texts) -> Keys:
    """[texts, 2]: 16 bytes of the SHA-256 of title and text."""
    digests = b"".join(
        hashlib.sha256(f"{len(title)} {title}{text}".encode()).digest()[:16] for title, text in texts
    )
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)
