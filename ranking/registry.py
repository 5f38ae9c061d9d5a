"""Name → reranker. A job can use what stands here and nothing else: no class is ever named by configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ranking.baselines.complete import Complete
from ranking.baselines.overlap import Overlap
from ranking.baselines.similarity import Similarity
from ranking.cascade.cascade import Cascade, Sequential
from ranking.cascade.pointwise import Pointwise
from ranking.cosinet.compare_aggregate import CompareAggregate
from ranking.cosinet.cosinet import Cosinet, CosinetPassages
from ranking.hashing.hashing import Hashing
from ranking.multihead.multihead import MultiHead
from ranking.peasi.peasi import Extractor, PassageReranker
from ranking.reranker import Reranker

RERANKERS: Mapping[str, type[Reranker]] = {
    Cascade.name: Cascade,
    CompareAggregate.name: CompareAggregate,
    Complete.name: Complete,
    Cosinet.name: Cosinet,
    CosinetPassages.name: CosinetPassages,
    Extractor.name: Extractor,
    Hashing.name: Hashing,
    MultiHead.name: MultiHead,
    Overlap.name: Overlap,
    PassageReranker.name: PassageReranker,
    Pointwise.name: Pointwise,
    Sequential.name: Sequential,
    Similarity.name: Similarity,
}


def find(name: str) -> type[Reranker]:
    """The reranker of that name. Raises ValueError with the known names and the nearest one."""
    if name in RERANKERS:
        return RERANKERS[name]
    near = difflib.get_close_matches(name, RERANKERS, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown reranker {name!r}{meant} Known: {', '.join(sorted(RERANKERS))}")
