"""Kinds of dense index: the exact one, three words, and FAISS' own factory strings.

A word stands for a factory string with sizes for the number of vectors of the whole index. Each string has an
inner product, and is of cells (`IVF…`, whose trained parts all shards share) or a graph (`HNSW…`, one in each
shard). Where FAISS stores codes in blocks (`fs`), or scores anew itself (`Refine`), it is refused: a shard
keeps one row of codes a passage, and exact scores come from the stored vectors.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

FLAT = "flat"
WORDS = ("hnsw", "ivfpq", "ivfrabitq")
_CELLS_OF_A_LIST = 4_096
"""Most cells that are compared one by one; more are found by a graph."""
_ROWS_PER_CELL = 39
"""Fewest vectors that a cell is trained on, which FAISS asks for too."""
_PACKAGES = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12")
_FATAL = re.compile(r"(?<!\d)0+(?!\d)|HNSW0*1(?!\d)")
"""Sizes in a factory string with which FAISS ends the process: 0, and one link of a graph."""
_ADVICE = f"give {FLAT}, {', '.join(WORDS)}, or a FAISS factory string such as IVF256,PQ48"


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """Width of the search of a dense index that is not exact."""

    probes: int = 0
    """Cells that a question visits, or vectors of a graph (FAISS' efSearch); 0: `probes_for`, `times` as
    many."""
    candidates: int = 0
    """Best candidates by the codes, over all shards, whose exact scores are computed; 0: the index is
    exact."""
    first: int = 0
    """Of them, those that a shard scores and sends before it is asked for more; 0: all (`first_for`)."""
    times: int = 1
    """How many times as wide as an index of this size is searched by itself."""


EXACT = VectorSearch()
"""Search of an exact index, which has no width."""


class VectorsUnfit(ValueError):
    """The kind of dense index cannot be had, or not for these vectors; the message says what to give."""

    exit_code = 78


def cells_for(rows: int) -> int:
    """Number of cells for an index of this many vectors: the power of 2 nearest to 4 √rows, or fewer where
    rows are few.

    >>> [cells_for(rows) for rows in (20, 5_000, 100_000, 1_000_000, 50_000_000)]
    [1, 128, 1024, 4096, 32768]
    """
    most = max(1, rows // _ROWS_PER_CELL)
    return 1 << min(round(math.log2(4 * math.sqrt(max(rows, 1)))), most.bit_length() - 1)


def probes_for(cells: int, times: int = 1) -> int:
    """Cells that a question visits unless the job says otherwise: 16 √cells, so all where there are up to
    256, or some times as many.

    >>> [probes_for(cells) for cells in (1, 64, 1024, 4096, 32768)]
    [1, 64, 512, 1024, 2896]
    >>> probes_for(4096, times=2)
    2048
    """
    return min(cells, times * round(16 * math.sqrt(cells)))


def rescore_for(kind: str) -> int:
    """Candidates for each passage that is wanted unless the job says otherwise: codes need more than a
    graph, which holds the vectors themselves."""
    return 2 if kind.lower().startswith("hnsw") else 8


def first_for(candidates: int, shards: int) -> int:
    """Candidates that each of some shards sends at first, of those that all shards together have: twice its
    share and eight, so that few are asked for more; 0, all, where it would be as many.

    >>> [first_for(800, shards) for shards in (1, 2, 10, 50, 500)]
    [0, 0, 168, 40, 12]
    """
    first = -(-2 * candidates // shards) + 8
    return first if first < candidates else 0


def factory_string(kind: str, dimension: int, rows: int) -> str:
    """FAISS' string for a kind of index of `rows` vectors of `dimension` numbers: a word's, or the kind
    itself. Raises VectorsUnfit."""
    cells = cells_for(rows)
    coarse = f"IVF{cells}{'_HNSW32' if cells > _CELLS_OF_A_LIST else ''}"
    if kind == "hnsw":
        return "HNSW32"
    if kind == "ivfrabitq":
        return f"RR{dimension},{coarse},RaBitQ"
    if kind == "ivfpq":
        if dimension % 8:
            raise VectorsUnfit(
                f"index.vectors: ivfpq cuts a vector into eights of numbers, and the encoder makes "
                f"{dimension}; give ivfrabitq"
            )
        return f"{coarse},PQ{dimension // 8}"
    return kind


def empty_index(kind: str, dimension: int, rows: int) -> Any:
    """A FAISS index of this kind, untrained and without vectors. Raises VectorsUnfit if FAISS has none, or it
    is not of cells or a graph."""
    import faiss

    factory = factory_string(kind, dimension, rows)
    if size := _FATAL.search(factory):
        raise VectorsUnfit(
            f"index.vectors: {factory!r} has the size {size[0]}, which is too small for FAISS; {_ADVICE}"
        )
    try:
        index: Any = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as e:
        reason = re.sub(r"^.* at \S+:\d+: ", "", str(e), flags=re.DOTALL).removeprefix("Error: ")
        raise VectorsUnfit(
            f"index.vectors: FAISS makes no {factory!r} of vectors of {dimension} numbers ({reason}); "
            f"{_ADVICE}"
        ) from None

    inner: Any = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    is_of_cells = isinstance(inner, faiss.IndexIVF) and "FastScan" not in type(inner).__name__
    if not is_of_cells and not isinstance(index, faiss.IndexHNSW):
        raise VectorsUnfit(
            f"index.vectors: {factory!r} is {type(inner).__name__}, which is neither of cells (IVF, without "
            f"fs and Refine) nor a graph (HNSW); {_ADVICE}"
        )
    if hasattr(inner, "do_polysemous_training"):
        inner.do_polysemous_training = False  # minutes, for a search that is not done here
    return index


def check_faiss() -> None:
    """Refuse two packages of FAISS, of which one has overwritten the other's files. Raises FaissTwice."""
    names = []
    for name in _PACKAGES:
        try:
            version(name)
            names.append(name)
        except PackageNotFoundError:
            continue
    if len(names) > 1:
        raise FaissTwice(
            f"{' and '.join(names)} are installed together, and one overwrites the other's files. Type: pip "
            f"uninstall -y {' '.join(names)}, then pip install faiss-cpu"
        )


class FaissTwice(RuntimeError):
    """Two packages of FAISS are installed at the same time."""

    exit_code = 69
