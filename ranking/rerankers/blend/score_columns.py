"""Columns of named scores, standardised within the list, and their weighted sum.

A score is identified by its name: the key of a stage, or one of `RETRIEVAL`, which retrieval gave the
passage; in a model with exits also `EXIT`, the score of the exit that a candidate has reached. Scores of
different stages have different scales, and those of one stage differ between questions. So each is
standardised over the candidates of the list, z = (x - mean) / deviation, and is 0 where they are all equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import log
from types import MappingProxyType

import numpy as np

from answermill.ranking.reranker import rounded
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.ranked import Candidate, Hit, RankedList

EXIT = "exit"
"""Name of the score of a model's exit, if weights decide which candidates leave there."""
RETRIEVAL: Mapping[str, Callable[[Hit], float | None]] = MappingProxyType(
    {
        "bm25": lambda hit: hit.bm25_score,
        "dense": lambda hit: hit.dense_score,
        "fused": lambda hit: hit.fused_score,
        "log_rank": lambda hit: -log(hit.rank),
    }
)
"""Scores of the retrieved passage: those of the indexes, of their fusion, and -log of its rank after
fusion."""
RETRIEVED = ("bm25", "dense", "log_rank")
"""Names in RETRIEVAL for which `LabelledCandidate` has a column."""
INDEXES = ("bm25", "dense")
"""Names of scores that only passages returned by the index have."""


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Σ w · z of named scores. The caller refuses a score that is not finite, as `order_by` does."""

    names: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, table: Mapping[str, float]) -> WeightedSum:
        """Sum from a table, name → weight, whose order does not matter."""
        names = tuple(sorted(table))
        return cls(names, tuple(table[name] for name in names))

    def columns(self, ranked: RankedList) -> Floats:
        """[candidates, names]: each candidate's scores, not standardised; 0 for `EXIT`. Raises ValueError
        like `column`."""
        columns = [
            np.zeros(len(ranked.candidates)) if name == EXIT else column(ranked, name) for name in self.names
        ]
        return np.stack(columns, axis=1)

    def total(
        self, columns: Floats, question: Ints | None = None, exit_score: Floats | None = None
    ) -> Floats:
        """[candidates]: the sum for the candidates of one list, or of several: `question` [candidates]
        numbers them from 0.

        `exit_score` [candidates] takes the place of the column `EXIT`. The candidates of a list must be in
        its original order: the last digits of sums of floating-point numbers depend on it.
        """
        numbers = np.zeros(len(columns), np.int64) if question is None else question
        total = np.zeros(len(columns))
        for name, weight, values in zip(self.names, self.weights, columns.T, strict=True):
            total += weight * standardised(
                exit_score if name == EXIT and exit_score is not None else values, numbers
            )
        return total

    def scores(self, ranked: RankedList) -> Floats:
        """[candidates]: the sum for one list. Raises ValueError like `column`."""
        return self.total(self.columns(ranked))


def column(ranked: RankedList, name: str) -> Floats:
    """[candidates]: the scores of that name, rounded like those that order a list.

    A candidate that an index did not return gets the lowest score of that index in the list, and 0 if no
    candidate has one: it counts as the worst that was returned, and no worse. If a data set states the
    retrieval of its candidates, its scores are used. Raises ValueError for a candidate without a stage's
    score.
    """
    if name in RETRIEVAL:
        stated = [(candidate.retrieval or {}).get(name) for candidate in ranked.candidates]
        hits = (RETRIEVAL[name](candidate.hit) for candidate in ranked.candidates)
        scores = stated if any(score is not None for score in stated) else list(hits)
        lowest = min((score for score in scores if score is not None), default=0.0)
        return rounded(lowest if score is None else score for score in scores)
    return rounded(_stage_score(ranked, candidate, name) for candidate in ranked.candidates)


def standardised(values: Floats, question: Ints) -> Floats:
    """[candidates]: z of each value over the candidates of its question (numbered from 0); 0 where they are
    all equal.

    >>> standardised(np.array([1.0, 3.0, 7.0, 7.0]), np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, 0.0, 0.0]
    """
    lists = int(question.max(initial=-1)) + 1
    lowest = np.full(lists, np.inf)
    np.minimum.at(lowest, question, values)
    # Exactly 0 for all where all are equal, whatever rounding does to their mean.
    above = values - lowest[question]
    size = np.maximum(np.bincount(question, minlength=lists), 1)
    off = above - (np.bincount(question, above, lists) / size)[question]
    deviation = np.sqrt(np.bincount(question, off * off, lists) / size)[question]
    z: Floats = np.divide(off, deviation, out=np.zeros(len(values)), where=deviation > 0)
    return z


def retrieval_columns(ranked: RankedList) -> dict[str, list[float | None]]:
    """Name in `RETRIEVED` → [candidates]: z of the column, over the candidates that an index returned.

    Unknown values are None: all of a candidate whose passage no index returned, as in a data set, and the
    score of an index that returned none. A data set's candidate may have its own (`Candidate.retrieval`). The
    list is in its original order: see `WeightedSum.total`.
    """
    places = [n for n, c in enumerate(ranked.candidates) if c.retrieval is None and _was_returned(c.hit)]
    part = RankedList(ranked.question, tuple(ranked.candidates[n] for n in places))
    columns: dict[str, list[float | None]] = {}
    for name in RETRIEVED:
        columns[name] = [(c.retrieval or {}).get(name) for c in ranked.candidates]
        if any(RETRIEVAL[name](candidate.hit) is not None for candidate in part.candidates):
            z = standardised(column(part, name), np.zeros(len(places), np.int64))
            for n, value in zip(places, z.tolist(), strict=True):
                columns[name][n] = value
    return columns


def _was_returned(hit: Hit) -> bool:
    return any(RETRIEVAL[index](hit) is not None for index in INDEXES)


def known_names(stages: Collection[str], indexes: Collection[str] | None = None) -> list[str]:
    """Names of scores that a stage can weigh: the keys of the stages before it, and those of retrieval, for
    the indexes that were searched.

    Raises ValueError if a stage has the name of another score.
    """
    for name in stages:
        if name in RETRIEVAL or name == EXIT:
            raise ValueError(
                f"a stage before this one is named {name!r}, which names another score too; give it another "
                "name"
            )
    return [
        *stages,
        *(name for name in RETRIEVAL if name not in INDEXES or indexes is None or name in indexes),
    ]


def _stage_score(ranked: RankedList, candidate: Candidate, name: str) -> float:
    for score in reversed(candidate.stages):
        if score.stage == name:
            return score.score
    raise ValueError(
        f"candidate {candidate.candidate_id} of question {ranked.question.question_id} has no score "
        f"{name!r}; "
        f"it has {', '.join([score.stage for score in candidate.stages] + [*RETRIEVAL])}"
    )
