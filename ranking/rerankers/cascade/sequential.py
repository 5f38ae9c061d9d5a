"""The sequential ranker SR (Cascade Transformer §4.2): monolithic rankers of growing depth, one after the
other.

Reads sentences, writes sentences. Each ranker encodes again the candidates that the one before has kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import ClassVar, Self

import numpy as np

from answermill.files.model_files import SUMS
from answermill.ranking.checkpoint import CONFIG
from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, left_at, order_by, rounded
from answermill.ranking.rerankers.cascade import CascadeStage
from answermill.ranking.rerankers.cascade.cascade import Cascade, alpha_per_exit
from answermill.ranking.rerankers.cascade.cascade_model import load
from answermill.ranking.rerankers.cascade.schedule import check, survivors
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList


class Sequential:
    """SR: monolithic rankers of growing depth, each trained on its own (§4.2). Each encodes again the
    candidates that the one before has kept.

    A checkpoint is a folder whose sub-folders are checkpoints of `pointwise`; the shallowest ranks first.
    """

    name: ClassVar[str] = "sequential"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, rankers: Sequence[Cascade], drops: Sequence[float] = ()) -> None:
        """`drops`: α after each ranker but the last. Raises ValueError if they do not fit the rankers."""
        self.drops = tuple(drops) or (0.0,) * (len(rankers) - 1)
        depths = [ranker.depth for ranker in rankers]
        if any(deeper <= depth for depth, deeper in pairwise(depths)):
            raise ValueError(f"the rankers have depths {depths}; each must be deeper than the one before")
        check(depths, self.drops)
        self._rankers = rankers

    @classmethod
    def load(cls, resources: Resources) -> Self:
        folder = resources.folder()
        # A damaged folder may lack one of the two files; `load` then says so.
        folders = {path.parent for name in (CONFIG, SUMS) for path in folder.glob(f"*/{name}")}
        loaded = [load(path, "pointwise", resources.model) for path in sorted(folders)]
        if not loaded:
            raise ValueError(
                f"{folder} is no checkpoint of sequential: it has no sub-folders that are checkpoints of "
                "pointwise"
            )

        device, precision = resources.device, resources.precision()
        rankers = sorted(
            (Cascade(*parts, device=device, precision=precision) for parts in loaded),
            key=lambda ranker: ranker.depth,
        )
        return cls(rankers, alpha_per_exit(resources.stage(CascadeStage).drop, len(rankers) - 1))

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Readings of its rankers."""
        return tuple(reading for ranker in self._rankers for reading in ranker.readings)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        remaining = list(lists)
        left: list[list[Candidate]] = [[] for _ in lists]
        for number, (ranker, alpha) in enumerate(zip(self._rankers, (*self.drops, 0.0), strict=True), 1):
            scores = [rows.scores[:, -1] for rows in ranker.exit_scores(remaining)]
            if ranker is self._rankers[-1]:
                break

            # The worst candidates of each list leave, the lowest score first.
            for n, ranked in enumerate(remaining):
                size = len(ranked.candidates)
                stay = survivors(np.zeros(size, np.int64), scores[n], np.arange(size), alpha)
                leaving = np.flatnonzero(~stay)
                for i in leaving[np.lexsort((-leaving, rounded(scores[n][leaving])))].tolist():
                    left[n].append(left_at(ranked.candidates[i], scores[n][i], self.name, number))
                remaining[n] = RankedList(ranked.question, tuple(compress(ranked.candidates, stay)))

        last = len(self._rankers) if len(self._rankers) > 1 else None
        ordered = (
            order_by(ranked, values, self.name, last)
            for ranked, values in zip(remaining, scores, strict=True)
        )

        return [replace(ranked, left=tuple(leavers)) for ranked, leavers in zip(ordered, left, strict=True)]

    def costs(self) -> Counter[str]:
        """Costs as of `Cascade.costs`, summed over the rankers; incoming candidates are counted once."""
        first, *others = [ranker.costs() for ranker in self._rankers]
        incoming = {key: first[key] for key in ("candidates", "tokens")}
        full = {f"full_layer_{key}": self._rankers[-1].depth * n for key, n in incoming.items()}
        without = {key: n for key, n in first.items() if key.startswith("without_")}
        return Counter({**sum(others, first), **incoming, **full, **without}) if first else first
