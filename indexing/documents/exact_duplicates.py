"""Exact duplicates over the whole corpus, as pure functions over compact arrays.

A document is 16 bytes here, so that a hundred million of them can be sorted in memory, and no text is moved.
The first occurrence in (file order, place in the file) stays, whatever the order in which the files were
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]  # [documents, 2]


def text_hash(text: str) -> str:
    """`Document.text_hash` of a text in its stored form: a hash of the text as `fold` gives it."""
    # A stored text has one blank between words, so that `fold` has nothing to split and to join.
    return hashlib.sha256(text.casefold().replace("\n", " ").encode()).hexdigest()[:32]


def text_keys(text_hashes: Iterable[str]) -> Keys:
    """A row for each `Document.text_hash`: equal texts, letter case and white space folded, are
    duplicates."""
    return _rows(bytes.fromhex(text_hash) for text_hash in text_hashes)


def id_keys(doc_ids: Iterable[str]) -> Keys:
    """16 bytes of each `Document.doc_id`, hashed: so that `losers` finds repeated ids as well."""
    return _rows(hashlib.sha256(doc_id.encode()).digest()[:16] for doc_id in doc_ids)


def losers(units: Sequence[tuple[int, Keys]]) -> dict[int, npt.NDArray[np.int64]]:
    """Unit → the rows (from 0, ascending) whose key an earlier row holds: of this unit or one of a lower
    number.

    A unit is (its number in the order of the input files, the keys of its documents in reading order). Units
    may be given in any order, but each once.

    >>> keys = np.array([[1, 0], [2, 0]], np.uint64)
    >>> {number: rows.tolist() for number, rows in losers([(1, keys), (0, keys[1:])]).items()}
    {0: [], 1: [1]}
    """
    ordered = sorted(units, key=lambda unit: unit[0])
    numbers = [number for number, _ in ordered]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"a unit is given twice: {sorted({n for n in numbers if numbers.count(n) > 1})}")
    if not ordered:
        return {}

    rows = np.concatenate([unit for _, unit in ordered])
    # Stable: equal keys stay in reading order, so the first is the winner.
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    ranked = rows[order]
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[order[1:]] = (ranked[1:] == ranked[:-1]).all(axis=1)
    ends = np.cumsum([len(unit) for _, unit in ordered])
    parts = np.split(repeated, ends[:-1])

    return {number: np.flatnonzero(part) for number, part in zip(numbers, parts, strict=True)}


def _rows(digests: Iterable[bytes]) -> Keys:
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)
