"""One shard's vectors as an exact FAISS index: written chunk by chunk, searched without cutting a tie at
random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answermill.schemas.arrays import NO_ROWS, Rows

SCORE_DECIMALS = 6
"""A score is summed in float64 and rounded here, so equal vectors tie whichever shard they are in."""
AT_ONCE = 8
"""Questions from which one product of matrices takes less time than a product for each."""
_PART = 65_536  # rows of a pass over all vectors
_SLACK = 32  # hits fetched beyond the depth, to see whether the last one is tied with more
_NOISE = 1e-5  # bound of a float32 sum's error, as a share of the two vectors' lengths, in whatever order

Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Nearest = Callable[[Vectors, int], tuple[Vectors, Rows]]
"""(questions [n, d], number to fetch) → (sums in float32, the highest first, rows), [n, number] each."""


def live_rows(rows: int, gone: Rows) -> npt.NDArray[np.bool_]:
    """[rows]: False where a row is gone.

    >>> live_rows(4, np.array([1, 2])).tolist()
    [True, False, False, True]
    """
    live = np.ones(rows, np.bool_)
    live[gone] = False
    return live


def exact_scores(vectors: Vectors, question: Vectors) -> Scores:
    """[rows]: inner products of vectors [rows, d] with a question [d], each summed by itself in float64 and
    rounded to 6 decimals.

    >>> exact_scores(np.array([[1, 2], [3, 0.5]], np.float32), np.array([2, 1], np.float32)).tolist()
    [4.0, 6.5]
    """
    products = vectors.astype(np.float64) * question.astype(np.float64)
    scores: Scores = np.round(products.sum(axis=1), SCORE_DECIMALS)
    return scores


class DenseWriter:
    """Gathers vectors, chunk by chunk, and writes one exact inner-product index (IndexFlatIP)."""

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss = faiss
        self._index = faiss.IndexFlatIP(dimension)

    def add(self, vectors: Vectors) -> None:
        """Append vectors; rows are counted in this order. Raises ValueError on a vector that is not
        finite."""
        bad = ~np.isfinite(vectors).all(axis=1)
        if bad.any():
            raise ValueError(f"vector {self._index.ntotal + int(bad.argmax())} is not finite")
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def write(self, path: Path) -> None:
        """Write the index. Raises OSError if the file is shorter than its vectors: FAISS may not notice a
        full disk."""
        self._faiss.write_index(self._index, str(path))
        least = 4 * self._index.ntotal * self._index.d
        if path.stat().st_size < least:
            raise OSError(
                f"{path}: {path.stat().st_size:,} bytes were written of {least:,} and more; is the disk full?"
            )


@dataclass(frozen=True)
class DenseIndex:
    """An exact inner-product index, open for search. FAISS or a graphics card finds the candidates, and their
    scores are computed here: hits are the same, bit for bit."""

    vectors: Vectors
    """[rows, d]"""
    _nearest: Nearest
    gone: Rows = field(default_factory=lambda: NO_ROWS)
    """Rows that are not found, ascending."""
    _memory: object = None
    """FAISS' index, if the vectors are a view into it."""

    @classmethod
    def open(
        cls, path: Path, gone: Rows = NO_ROWS, device: str = "cpu", *, mapped: bool = False
    ) -> DenseIndex:
        """Open the index in a file, to be searched by FAISS on 'cpu', else by torch on that device. `mapped`:
        its vectors stay on the disk until they are read. Raises ValueError if it is of another kind."""
        import faiss

        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
        if not isinstance(index, faiss.IndexFlatIP):
            raise ValueError(f"{path}: {type(index).__name__}, not IndexFlatIP")
        numbers = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
        vectors = numbers.reshape(index.ntotal, index.d)
        if device == "cpu":
            return cls(vectors, partial(_nearest_by_faiss, index), gone)
        return replace(cls.by_torch(vectors, device), gone=gone, _memory=index)

    @classmethod
    def by_torch(cls, vectors: Vectors, device: str) -> DenseIndex:
        """An index of vectors [rows, d] in memory, searched by torch on a device."""
        from answermill.indexing.shards.vectors.card_search import CardSearch

        return cls(vectors, CardSearch(vectors, device).nearest)

    @cached_property
    def live(self) -> npt.NDArray[np.bool_]:
        """[rows]: False where a row is gone."""
        return live_rows(self.rows, self.gone)

    @cached_property
    def longest(self) -> float:
        """Length of the longest vector."""
        parts = np.array_split(self.vectors, -(-self.rows // _PART) or 1)
        squares = (np.einsum("ij,ij->i", part, part).max(initial=0.0) for part in parts)
        return float(np.sqrt(max(squares)))

    @property
    def rows(self) -> int:
        return len(self.vectors)

    def search(self, questions: Vectors, depth: int) -> list[tuple[Rows, Scores]]:
        """Rows and scores of the best `depth` vectors for each question [d], and of all that tie with the
        last of them.

        Candidates are found by sums in float32; each one's score is then summed anew in float64, row by row,
        and rounded to 6 decimals, so it does not depend on the size of the shard, or on the device. Order is
        score descending, then row.
        """
        if depth < 1:
            raise ValueError(f"depth is {depth}, must be at least 1")
        live = int(self.live.sum())
        if live == 0:
            return [(NO_ROWS, np.empty(0)) for _ in questions]

        # The search knows nothing of rows that are gone: as many more are fetched as should be among them.
        fetch = min(-(-(depth + _SLACK) * self.rows // live), self.rows)
        sums, nearest = self._nearest(questions, fetch)
        return [
            self._exact(question, rows, sums[n], depth)
            for n, (question, rows) in enumerate(zip(questions, nearest, strict=True))
        ]

    def _exact(
        self, question: npt.NDArray[np.float32], rows: Rows, sums: npt.NDArray[np.float32], depth: int
    ) -> tuple[Rows, Scores]:
        while True:
            own = rows[self.live[rows]]
            scores = exact_scores(self.vectors[own], question)
            order = np.lexsort((own, -scores))
            own, scores = own[order], scores[order]

            noise = _NOISE * float(np.linalg.norm(question)) * self.longest
            is_sure = len(own) >= depth and sums[-1] + noise < scores[depth - 1]
            if len(rows) == self.rows or is_sure:
                break

            # The last one may tie with vectors that were not fetched.
            sums, rows = (a[0] for a in self._nearest(question[None], min(2 * len(rows), self.rows)))

        tied = int((scores >= scores[min(depth, len(scores)) - 1]).sum())
        return own[:tied], scores[:tied]


def _nearest_by_faiss(index: Any, questions: Vectors, fetch: int) -> tuple[Vectors, Rows]:
    with _product_of_matrices(len(questions)):
        sums, rows = index.search(np.ascontiguousarray(questions, np.float32), fetch)
    return sums, rows


@contextmanager
def _product_of_matrices(questions: int) -> Iterator[None]:
    """A block in which FAISS multiplies matrices if there are AT_ONCE questions.

    By itself FAISS 1.15 does so from 128,000 numbers on, 334 questions of 384; 64 took eight times as long.
    The setting holds for the process, so it is put back: other indexes round by it.
    """
    import faiss

    usual = faiss.cvar.distance_compute_blas_threshold
    if questions >= AT_ONCE:
        faiss.cvar.distance_compute_blas_threshold = 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = usual
