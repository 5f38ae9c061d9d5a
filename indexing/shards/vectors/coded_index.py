"""One shard's vectors as an index that is not exact: codes, or a graph, choose candidates, and the stored
vectors score them.

    dense/codes.npy    row i is passage i: cell and code          (an index of cells)
    dense/graph.faiss  FAISS' graph of the vectors                (a graph)
    dense/stored.npy   the vectors as fp16 or int8, and dense/scales.npy for int8

Each shard returns its best candidates with the value by which they were chosen and their exact score. The
merge over shards keeps the best by value, and orders those by score, so that shards of codes give together
what one index would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.vectors.exact_index import (
    Scores,
    Vectors,
    exact_scores,
    live_rows,
)
from answermill.indexing.shards.vectors.quantizer import Codes, Quantizer, Values, one_thread
from answermill.indexing.shards.vectors.stored_vectors import (
    NUMBERS,
    SCALES,
    Form,
    StoredVectors,
    pack,
    unpack,
)
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
from answermill.schemas.arrays import NO_ROWS, Rows

CODES, GRAPH = "codes.npy", "graph.faiss"
_SLACK = 32  # candidates fetched beyond those that are wanted, to see whether the last one is tied with more


class CodedWriter:
    """Gathers vectors, chunk by chunk, and writes their codes or graph, and the stored vectors."""

    def __init__(self, quantizer: Quantizer, form: Form) -> None:
        self._quantizer, self._form = quantizer, form
        self._graph = quantizer.empty_graph() if quantizer.is_graph else None
        self._codes: list[Codes] = []
        self._numbers: list[npt.NDArray[Any]] = []
        self._scales: list[npt.NDArray[np.float32]] = []
        self._rows = 0
        self.add(np.empty((0, quantizer.dimension), np.float32))  # an empty shard has files too

    def add(self, vectors: Vectors) -> None:
        """Append vectors; rows are counted in this order. Raises ValueError on a vector that is not finite
        as it is stored."""
        numbers, scales = pack(vectors, self._form)
        read = unpack(numbers, scales)
        bad = ~np.isfinite(read).all(axis=1)
        if bad.any():
            raise ValueError(f"vector {self._rows + int(bad.argmax())} is not finite")

        if self._graph is None:
            self._codes.append(self._quantizer.codes(read))
        else:
            with one_thread():
                self._graph.add(read)
        self._numbers.append(numbers)
        if scales is not None:
            self._scales.append(scales)
        self._rows += len(vectors)

    def write(self, folder: Path) -> None:
        """Write the files into a new folder."""
        import faiss

        folder.mkdir()
        np.save(folder / NUMBERS, np.concatenate(self._numbers), allow_pickle=False)
        if self._scales:
            np.save(folder / SCALES, np.concatenate(self._scales), allow_pickle=False)
        if self._graph is None:
            np.save(folder / CODES, np.concatenate(self._codes), allow_pickle=False)
        else:
            faiss.write_index(self._graph, str(folder / GRAPH))


class _Finder(Protocol):
    """Search by codes or by a graph."""

    def nearest(self, questions: Vectors, fetch: int, width: VectorSearch) -> tuple[Values, Rows]:
        """Values and rows [questions, fetch], best first; row -1 where there are no more."""
        ...


@dataclass(frozen=True)
class _Cells:
    quantizer: Quantizer
    lists: Any

    def nearest(self, questions: Vectors, fetch: int, width: VectorSearch) -> tuple[Values, Rows]:
        return self.quantizer.nearest(self.lists, questions, fetch, width)


@dataclass(frozen=True)
class _Graph:
    index: Any
    chosen: Mapping[str, Any]
    """FAISS' selector of the rows that may be found, as `sel`; empty if all may."""

    def nearest(self, questions: Vectors, fetch: int, width: VectorSearch) -> tuple[Values, Rows]:
        import faiss

        module: Any = faiss  # whose types leave this class out
        search = module.SearchParametersHNSW(efSearch=max(width.probes, fetch), **self.chosen)
        values, rows = self.index.search(np.ascontiguousarray(questions, np.float32), fetch, params=search)
        return values, rows


@dataclass(frozen=True)
class CodedIndex:
    """An index of codes or a graph, open for search; `vectors` are the stored ones, `live` [rows] is False
    where a row is gone."""

    vectors: StoredVectors
    live: npt.NDArray[np.bool_]
    _finder: _Finder

    @classmethod
    def open(cls, folder: Path, quantizer: Quantizer, gone: Rows = NO_ROWS) -> CodedIndex:
        """Open the index in a folder: its codes are loaded, its vectors mapped. Rows that are `gone` are not
        found."""
        import faiss

        vectors = StoredVectors.open(folder)
        live = live_rows(len(vectors), gone)
        finder: _Finder
        if quantizer.is_graph:
            module: Any = faiss  # whose types leave this class out
            bits = np.packbits(live, bitorder="little")
            chosen = {"sel": module.IDSelectorBitmap(bits)} if len(gone) else {}
            finder = _Graph(faiss.read_index(str(folder / GRAPH)), chosen)
        else:
            codes = np.load(folder / CODES, mmap_mode="r", allow_pickle=False)
            finder = _Cells(quantizer, quantizer.lists(codes, live))
        return cls(vectors, live, finder)

    @property
    def rows(self) -> int:
        return len(self.vectors)

    def search(self, questions: Vectors, width: VectorSearch) -> list[tuple[Rows, Scores, Scores]]:
        """Rows, scores and values of the best candidates by value for each question [d], or the first of them
        (`width.first`), and of all that tie with the last; order is value descending, then row.

        Scores are of the stored vectors, summed in float64 and rounded to 6 decimals.
        """
        if width.candidates < 1:
            raise ValueError(f"candidates is {width.candidates}, must be at least 1")
        if not self.live.any():
            return [(np.empty(0, np.int64), np.empty(0), np.empty(0)) for _ in questions]
        fetch = min(width.candidates + _SLACK, self.rows)
        values, rows = self._finder.nearest(questions, fetch, width)
        return [self._scored(question, values[n], rows[n], width) for n, question in enumerate(questions)]

    def _scored(
        self, question: npt.NDArray[np.float32], values: Values, rows: Rows, width: VectorSearch
    ) -> tuple[Rows, Scores, Scores]:
        # Rows are fetched until one is worse than the last that is wanted, or there are no more.
        while len(rows) < self.rows and rows[-1] >= 0 and values[-1] == values[width.candidates - 1]:
            fetch = min(2 * len(rows), self.rows)
            values, rows = (a[0] for a in self._finder.nearest(question[None], fetch, width))

        chosen: Scores = values[rows >= 0].astype(np.float64)
        rows = rows[rows >= 0]
        if len(rows) > width.candidates:
            wanted = chosen >= chosen[width.candidates - 1]
            chosen, rows = chosen[wanted], rows[wanted]
        # The first are cut from the same list, since a graph that is asked for fewer finds others.
        if 0 < width.first < len(rows):
            wanted = chosen >= chosen[width.first - 1]
            chosen, rows = chosen[wanted], rows[wanted]
        order = np.lexsort((rows, -chosen))
        return rows[order], exact_scores(self.vectors[rows[order]], question), chosen[order]
