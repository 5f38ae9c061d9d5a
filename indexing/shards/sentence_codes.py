"""Sentence codes: a model's output for each different sentence text of a shard, so that it is encoded once.

    shards/00017-of-00512-1f83c0de/codes/<model>/
      answers.arrow   one row per text: its hash, its rows in bits.arrow, tokens that were cut, and the row of …
      bits.arrow      … its first one; rows of fixed size: a token's D bits (HAS), or a text's whole vector

A text is a tuple: a sentence, alone or with the parts around it that the model reads. Both are files of Arrow
IPC that are mapped into memory, so that only the rows needed are read. `answers.arrow` is sorted by hash. A
model is named by the digest of all that decides its codes; shard.json lists the models, with the sizes and
checksums of their files. The models give the bits their meaning (`ranking/rerankers/hashing/bits.py`,
`ranking/rerankers/baselines/sentence_vectors.py`); here they are bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.indexing.shards.kept_blocks import Arrays, KeptBlocks
from answermill.schemas.corpus import Passage

FORMAT = 1
FOLDER = "codes"
ANSWERS = "answers.arrow"
BITS = "bits.arrow"
TOKEN_BITS = "bits"
"""The form of codes that are bits of tokens."""
_HASH = 16  # bytes of the SHA-256 of a text

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Parts = tuple[str, ...]
"""A text: a sentence, alone or with the parts that are encoded with it."""


class EncodedTexts(Protocol):
    """Texts as rows of bytes, end to end."""

    @property
    def bits(self) -> Bytes:
        """[rows, width / 8]."""
        ...

    @property
    def lengths(self) -> Numbers:
        """[texts]: rows of each."""
        ...

    @property
    def cut(self) -> Numbers:
        """[texts]: tokens left out."""
        ...


class CodeMaker(Protocol):
    """A maker of codes. `model`: 32 hex digits that identify all that decides them; `width`: bits of a
    row."""

    model: str
    width: int
    form: str
    """'bits' for a row a token; else the type of the numbers in a text's only row, such as 'fp16'."""
    precision: str
    """Precision of its arithmetic on this machine; '' where there is only one."""

    def texts(self, passage: Passage) -> Iterable[Parts]:
        """The texts that it encodes, one for each of a passage's sentences."""
        ...

    def encode(self, texts: Sequence[Parts]) -> EncodedTexts: ...


@dataclass(frozen=True, slots=True)
class CodesName:
    """The codes that a shard holds: format, model, bits of a row, and the numbers of texts, rows, and texts
    that were cut."""

    format: int
    model: str
    width: int
    answers: int
    tokens: int
    answers_cut: int
    form: str = TOKEN_BITS


class CodeWriter:
    """Writes the codes of texts, each once; 16 bytes and some more per text stay in memory."""

    def __init__(self, shard: Path, encoder: CodeMaker, kept: KeptBlocks | None = None) -> None:
        self._encoder, self._kept = encoder, kept or KeptBlocks(None)
        self._folder = folder_of(shard, encoder.model)
        self._folder.mkdir(parents=True)
        self.seconds = 0.0
        """Time that `add_passages` has taken."""
        self._schema = pa.schema([pa.field("bits", pa.binary(encoder.width // 8), nullable=False)])
        self._writer = pa.ipc.new_file(self._folder / BITS, self._schema)
        self._known: set[bytes] = set()
        self._hashes: list[bytes] = []
        self._lengths: list[Numbers] = []
        self._cut: list[Numbers] = []

    def add_passages(self, passages: Iterable[Passage]) -> None:
        """Add the texts that the model reads of these passages, one for each sentence."""
        began = time.perf_counter()
        self.add([text for passage in passages for text in self._encoder.texts(passage)])
        self.seconds += time.perf_counter() - began

    def add(self, texts: Sequence[Parts]) -> None:
        """Add texts; those that are there already are not encoded again."""
        new: dict[bytes, Parts] = {}
        for text in texts:
            key = text_hash(text)
            if key not in self._known:
                new.setdefault(key, text)

        if new:
            encoded = self._encoded(list(new.values()))
            rows = _fixed(np.ascontiguousarray(encoded["bits"]), self._encoder.width // 8)
            self._writer.write_batch(pa.record_batch([rows], schema=self._schema))
            self._known.update(new)
            self._hashes += new
            self._lengths.append(encoded["lengths"])
            self._cut.append(encoded["cut"])

    def _encoded(self, texts: Sequence[Parts]) -> Arrays:
        """The fields of `EncodedTexts`."""

        def encode() -> Arrays:
            encoded = self._encoder.encode(texts)
            return {"bits": encoded.bits, "lengths": encoded.lengths, "cut": encoded.cut}

        parts = (part for text in texts for part in text)  # every text has the same number
        return self._kept.get(["codes", self._encoder.model, self._encoder.precision, *parts], encode)

    def finish(self) -> CodesName:
        """Write the table of texts; returns the description of the codes."""
        self._writer.close()
        lengths, cut = (
            np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (self._lengths, self._cut)
        )

        # Sorted by hash, so that a search finds a text by bisection.
        hashes = np.frombuffer(b"".join(self._hashes), np.uint8).reshape(-1, _HASH)
        order = np.lexsort(hashes.T[::-1])
        columns = {
            "text_hash": _fixed(hashes[order], _HASH),
            "length": pa.array(lengths[order], pa.int32()),
            "cut": pa.array(cut[order], pa.int32()),
            "first": pa.array((np.cumsum(lengths) - lengths)[order], pa.int64()),
        }

        with pa.ipc.new_file(self._folder / ANSWERS, pa.table(columns).schema) as file:
            file.write_table(pa.table(columns))

        return CodesName(
            FORMAT,
            self._encoder.model,
            self._encoder.width,
            len(hashes),
            int(lengths.sum()),
            int(np.count_nonzero(cut)),
            self._encoder.form,
        )


class StoredCode(NamedTuple):
    """A text's codes."""

    bits: Bytes
    """[rows, width / 8], a view into the file."""
    cut: int
    """Tokens left out."""


class ShardCodes:
    """A shard's codes by one model, mapped into memory."""

    def __init__(self, shard: Path, name: CodesName) -> None:
        folder = folder_of(shard, name.model)
        table = pa.ipc.open_file(pa.memory_map(str(folder / ANSWERS))).read_all().combine_chunks()
        hashes = table["text_hash"]
        self._hashes = _bytes(hashes.chunk(0), _HASH) if hashes.num_chunks else np.zeros((0, _HASH), np.uint8)
        self._keys = _key(self._hashes)
        self._length, self._cut, self._first = (
            table[column].to_numpy() for column in ("length", "cut", "first")
        )
        file = pa.ipc.open_file(pa.memory_map(str(folder / BITS)))
        self._batches = [
            _bytes(file.get_batch(n).column(0), name.width // 8) for n in range(file.num_record_batches)
        ]

        self._starts = np.cumsum([0, *map(len, self._batches)])
        self.name = name

    def find(self, hashes: Bytes) -> list[StoredCode | None]:
        """The codes of the texts with these hashes [n, 16]; None for a text without."""
        if not len(self._keys):
            return [None] * len(hashes)
        rows = np.minimum(np.searchsorted(self._keys, _key(hashes)), len(self._keys) - 1)
        matches = (self._hashes[rows] == hashes).all(1)
        return [
            self._answer(row) if is_match else None
            for row, is_match in zip(rows.tolist(), matches.tolist(), strict=True)
        ]

    def _answer(self, row: int) -> StoredCode:
        first = int(self._first[row])
        batch = int(np.searchsorted(self._starts, first, side="right")) - 1  # a text's rows are never in two
        start = first - int(self._starts[batch])
        return StoredCode(self._batches[batch][start : start + int(self._length[row])], int(self._cut[row]))


@dataclass(frozen=True, slots=True)
class SentenceCodes:
    """The codes of several shards by one model."""

    shards: Sequence[ShardCodes]

    def find(self, texts: Sequence[Parts]) -> list[StoredCode | None]:
        """Codes of each text, from the first shard that has some; None if none has."""
        hashes = np.frombuffer(b"".join(map(text_hash, texts)), np.uint8).reshape(-1, _HASH)
        answers: list[StoredCode | None] = [None] * len(texts)
        pending = np.arange(len(texts))
        for shard in self.shards:
            for n, answer in zip(pending.tolist(), shard.find(hashes[pending]), strict=True):
                answers[n] = answer
            pending = np.array([n for n in pending.tolist() if answers[n] is None], np.int64)
            if not len(pending):
                break
        return answers


def text_hash(text: Parts) -> bytes:
    """The key of a text: 16 bytes of its SHA-256; of several parts, of the SHA-256s of all, so that ('a b',
    '') and ('a', 'b') are two texts."""
    first, *others = (hashlib.sha256(part.encode("utf-8")).digest() for part in text)
    return (hashlib.sha256(b"".join([first, *others])).digest() if others else first)[:_HASH]


def folder_of(shard: Path, model: str) -> Path:
    return shard / FOLDER / model


def _fixed(rows: Bytes, width: int) -> pa.Array:
    """Rows of bytes [n, width] as a column of fixed size; without a copy."""
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))]
    )


def _bytes(column: pa.Array, width: int) -> Bytes:
    """The inverse of `_fixed`, without a copy.

    >>> _bytes(_fixed(np.array([[1, 2], [3, 4]], np.uint8), 2)[1:], 2).tolist()
    [[3, 4]]
    """
    rows: Bytes = np.frombuffer(column.buffers()[1], np.uint8)[
        : (column.offset + len(column)) * width
    ].reshape(-1, width)
    return rows[column.offset :]


def _key(hashes: Bytes) -> npt.NDArray[np.uint64]:
    """The first 8 bytes of each hash, as a number that sorts as they do. The other bytes distinguish two texts
    with the same number: at worst one of them is not found.

    >>> _key(np.array([[0] * 7 + [1] + [0] * 8], np.uint8)).tolist()
    [1]
    """
    keys: npt.NDArray[np.uint64] = np.ascontiguousarray(hashes[:, :8]).view(">u8").ravel().astype(np.uint64)
    return keys
