"""The trained parts of a dense index of cells or a graph: cells, codes and rotation, which all shards share.

A code must not depend on the vectors beside it, or n shards would not give what one gives. So distances to
cells are computed pair by pair and not as a product of matrices, whose sums depend on their sizes; a
rotation, which is one, is done in blocks of one size; and a graph is built by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import replacing, sha256
from answermill.indexing.shards.vectors.exact_index import Vectors
from answermill.indexing.shards.vectors.vector_kinds import (
    VectorSearch,
    VectorsUnfit,
    empty_index,
    probes_for,
)
from answermill.schemas.arrays import Rows

Codes = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]
PER_CELL = 40
"""Vectors for each cell that a quantizer is trained on."""
AT_LEAST = 16_384
"""Vectors that one is trained on at least, if there are as many: 64 for each of a code's 256 centroids."""
_BLOCK = 256
"""Vectors that are rotated together."""


class Quantizer:
    """An index without vectors, trained, and the digest of its file."""

    def __init__(self, index: Any, digest: str = "") -> None:
        import faiss

        self._faiss: Any = faiss
        self._index, self.digest = index, digest
        self.dimension, self.is_graph = int(index.d), isinstance(index, faiss.IndexHNSW)
        if not self.is_graph:
            self._cells = self._faiss.downcast_index(faiss.extract_index_ivf(index))
            self.cells, self.code_bytes = int(self._cells.nlist), int(self._cells.code_size)

    @classmethod
    def train(cls, kind: str, sample: Vectors, rows: int) -> Self:
        """The quantizer of a kind for an index of `rows` vectors, of a sample [n, d] of them; on one thread,
        so that the same sample gives the same bytes. Raises VectorsUnfit if the sample is too small."""
        index = empty_index(kind, sample.shape[1], rows)
        quantizer = cls(index)
        quantizer.refuse_few(kind, len(sample))
        try:
            with one_thread():
                index.train(np.ascontiguousarray(sample))
        except RuntimeError as e:
            raise VectorsUnfit(
                f"index.vectors: {kind!r} cannot be trained on {len(sample):,} vectors "
                f"({str(e).rpartition(': ')[2]}); give flat, which is best for few"
            ) from None
        return quantizer

    def refuse_few(self, kind: str, vectors: int) -> None:
        """Raise VectorsUnfit if this number of vectors is too small for the training."""
        if self.is_graph:
            return
        if self.cells > vectors:
            raise VectorsUnfit(
                f"index.vectors: {kind!r} has {self.cells:,} cells, and is trained on {vectors:,} "
                "vectors; give fewer cells, or flat"
            )
        codes = getattr(self._cells, "pq", None)
        if codes is not None and codes.ksub > vectors:
            raise VectorsUnfit(
                f"index.vectors: {kind!r} cannot be trained on {vectors:,} vectors, it has {codes.ksub:,} "
                "centroids; give flat, which is best for few"
            )

    @classmethod
    def open(cls, path: Path, digest: str) -> Quantizer:
        """The quantizer in a file, one copy of it in this process. Raises FileNotFoundError, and ValueError
        if the file's SHA-256 is another."""
        stat = path.stat()
        return _opened(path, digest, stat.st_size, stat.st_mtime_ns)

    def write(self, path: Path) -> None:
        with replacing(path) as temporary:
            self._faiss.write_index(self._index, str(temporary))

    def codes(self, vectors: Vectors) -> Codes:
        """The codes of vectors [n, d], uint8 [n, bytes], each with the number of its cell in front."""
        with _pair_by_pair():
            codes: Codes = self._cells.sa_encode(self._rotated(vectors))
        return codes

    def lists(self, codes: Codes, live: npt.NDArray[np.bool_] | None = None) -> Any:
        """The codes by cell, as FAISS searches them; a row's number is its place in `codes`. Rows that are
        not `live` are left out."""
        lists = self._faiss.ArrayInvertedLists(self.cells, self.code_bytes)
        in_front = codes.shape[1] - self.code_bytes
        numbers = np.zeros(len(codes), np.int64)
        for byte in range(in_front):
            numbers |= codes[:, byte].astype(np.int64) << (8 * byte)

        # One call a cell allots just the memory that it needs.
        rows = np.argsort(numbers, kind="stable")
        rows = rows if live is None else rows[live[rows]]
        edges = np.searchsorted(numbers[rows], np.arange(self.cells + 1))
        for cell in np.flatnonzero(np.diff(edges)).tolist():
            own = np.ascontiguousarray(rows[edges[cell] : edges[cell + 1]])
            own_codes = np.ascontiguousarray(codes[own, in_front:])
            lists.add_entries(cell, len(own), self._faiss.swig_ptr(own), self._faiss.swig_ptr(own_codes))
        return lists

    def nearest(self, lists: Any, questions: Vectors, fetch: int, width: VectorSearch) -> tuple[Values, Rows]:
        """Values and rows [questions, fetch] of the best by their codes, row -1 where the visited cells have
        no more."""
        self._cells.replace_invlists(lists, False)
        self._cells.ntotal = lists.compute_ntotal()
        visited = min(width.probes or probes_for(self.cells, width.times), self.cells)
        with _pair_by_pair():
            values, rows = self._cells.search(
                self._rotated(questions), fetch, params=self._faiss.SearchParametersIVF(nprobe=visited)
            )
        return values, rows

    def empty_graph(self) -> Any:
        """A graph to which a shard's vectors are added."""
        return self._faiss.clone_index(self._index)

    def _rotated(self, vectors: Vectors) -> Vectors:
        if not isinstance(self._index, self._faiss.IndexPreTransform):
            return np.ascontiguousarray(vectors, np.float32)

        chain = [self._index.chain.at(n) for n in range(self._index.chain.size())]
        blocks = [np.empty((0, self._cells.d), np.float32)]
        for start in range(0, len(vectors), _BLOCK):
            own = vectors[start : start + _BLOCK]
            block = np.zeros((_BLOCK, vectors.shape[1]), np.float32)
            block[: len(own)] = own
            for transform in chain:
                block = transform.apply(block)
            blocks.append(block[: len(own)])
        return np.concatenate(blocks)


@lru_cache(maxsize=2)
def _opened(path: Path, digest: str, size: int, time: int) -> Quantizer:
    """The quantizer in a file that has this size and time."""
    import faiss

    if sha256(path) != digest:
        raise ValueError(f"{path} is not the quantizer {digest[:16]}")
    return Quantizer(faiss.read_index(str(path)), digest)


def check_enough(kind: str, dimension: int, rows: int) -> None:
    """Refuse a kind that cannot be trained on as many vectors as an index of `rows` vectors has. Raises
    VectorsUnfit."""
    Quantizer(empty_index(kind, dimension, rows)).refuse_few(kind, sample_size(kind, dimension, rows))


def sample_size(kind: str, dimension: int, rows: int) -> int:
    """Number of vectors that the quantizer of an index of `rows` vectors is trained on. Raises
    VectorsUnfit."""
    quantizer = Quantizer(empty_index(kind, dimension, rows))
    return min(rows, max(AT_LEAST, 0 if quantizer.is_graph else PER_CELL * quantizer.cells))


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of FAISS for the block."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


@contextmanager
def _pair_by_pair() -> Iterator[None]:
    """FAISS computes each distance by itself in the block, in place of products of matrices."""
    import faiss

    threshold = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = np.iinfo(np.int32).max
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = threshold
