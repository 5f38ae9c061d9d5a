"""The k best over shards, and reciprocal rank fusion. Pure NumPy; order is score descending, then passage id.

`merge` is associative and commutative: shards are merged in any order and grouping, and n shards give the
result of one. Ids are compared by their UTF-8 bytes, which is the order of Python's strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Best:
    """The best passages of one question by one source, best first; five arrays of one length."""

    shards: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int64]  # in their shard
    ids: npt.NDArray[np.bytes_]  # passage ids in UTF-8, a quarter of NumPy's strings, and in the same order
    scores: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]  # by which they were chosen: the scores, if the index is exact

    @classmethod
    def of(
        cls,
        shard: int,
        rows: npt.NDArray[np.int64],
        ids: Iterable[str],
        scores: npt.NDArray[np.float64],
        values: npt.NDArray[np.float64] | None = None,
    ) -> Best:
        """The passages that one shard found. `values`: None if the index is exact."""
        encoded = np.array([passage_id.encode() for passage_id in ids], dtype=np.bytes_)
        shards = np.full(len(rows), shard, np.int32)
        return cls(shards, rows, encoded, scores, scores if values is None else values)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: slice | npt.NDArray[np.int64]) -> Best:
        """The passages at these places."""
        return Best(
            self.shards[places], self.rows[places], self.ids[places], self.scores[places], self.values[places]
        )


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage with its place in a shard, its fused score, and (score, rank from 1) by each source that
    found it."""

    shard: int
    row: int
    passage_id: str
    score: float
    sources: Mapping[str, tuple[float, int]]


def merge(parts: Iterable[Best], depth: int) -> Best:
    """The best `depth` of all parts. No passage may be in two of them.

    >>> first = Best.of(0, np.array([4, 9]), ["a", "b"], np.array([2.0, 1.0]))
    >>> second = Best.of(1, np.array([5]), ["c"], np.array([1.5]))
    >>> best = merge([first, second], depth=2)
    >>> best.ids.tolist(), best.shards.tolist(), best.rows.tolist()
    ([b'a', b'c'], [0, 1], [4, 5])
    """
    joined = _joined(parts)
    return joined[np.lexsort((joined.ids, -joined.scores))[:depth]]


def candidates(parts: Iterable[Best], number: int) -> Best:
    """The best `number` of all parts by the values that chose them, in the order of these: what one index
    that is not exact would score. `merge` then takes the best of them.

    >>> rows, scores = np.array([4, 9]), np.array([2.0, 3.0])
    >>> best = candidates([Best.of(0, rows, ["a", "b"], scores, np.array([2.5, 2.0]))], 1)
    >>> best.ids.tolist(), best.scores.tolist()
    ([b'a'], [2.0])
    """
    joined = _joined(parts)
    return joined[np.lexsort((joined.ids, -joined.values))[:number]]


def _joined(parts: Iterable[Best]) -> Best:
    """All parts, one after the other."""
    parts = list(parts) or [Best.of(0, np.empty(0, np.int64), (), np.empty(0))]
    return Best(
        np.concatenate([part.shards for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def fuse(by_source: Mapping[str, Best], k: int = 60) -> list[Fused]:
    """Reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009): score = sum over sources of 1 / (k +
    rank).

    Every passage that a source found is in the result, best first. Sources are summed in the order of their
    names.

    >>> bm25 = Best.of(0, np.array([4, 9]), ["a", "b"], np.array([2.0, 1.0]))
    >>> dense = Best.of(0, np.array([9]), ["b"], np.array([0.8]))
    >>> [(passage.passage_id, passage.sources) for passage in fuse({"bm25": bm25, "dense": dense})]
    [('b', {'bm25': (1.0, 2), 'dense': (0.8, 1)}), ('a', {'bm25': (2.0, 1)})]
    """
    place: dict[str, tuple[int, int]] = {}
    sources: dict[str, dict[str, tuple[float, int]]] = {}
    for source in sorted(by_source):
        best = by_source[source]
        columns = (best.shards.tolist(), best.rows.tolist(), best.ids.tolist(), best.scores.tolist())
        for rank, (shard, row, encoded, score) in enumerate(zip(*columns, strict=True), 1):
            passage_id = encoded.decode()
            place[passage_id] = (shard, row)
            sources.setdefault(passage_id, {})[source] = (score, rank)

    fused = [
        Fused(*place[passage_id], passage_id, sum(1 / (k + rank) for _, rank in ranks.values()), ranks)
        for passage_id, ranks in sources.items()
    ]
    return sorted(fused, key=lambda passage: (-passage.score, passage.passage_id))
