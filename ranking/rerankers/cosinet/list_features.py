"""Features that a Cosinet may read beside a pair, from a sentence's retrieval and page. The paper has only
the original order, "an essential signal" (§2.1.2), and lists of one document; ours have many, and retrieval
has scored them.

`bm25`, `dense`, `log_rank`: as `blend` weighs them, standardised within the list (`blend/score_columns.py`)
that the stage reads. `position`: -log(1 + n), with n sentences before it in its passage; 0 for a whole
passage. `title`: mean over the question's words of the greatest cosine to a word of the page's title, r of
§4.1.1. Unknown features are 0, and are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from math import log
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from answermill.ranking.rerankers.blend.score_columns import RETRIEVED, retrieval_columns
from answermill.ranking.rerankers.cosinet.list_settings import FEATURES, Feature
from answermill.ranking.rerankers.cosinet.table_lookup import EndToEnd, Relatedness
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import Candidate, RankedList

LISTS = 64  # at once: their titles' relatedness stays in a core's cache
Column: TypeAlias = Sequence[float | None]


def known_features(names: object) -> tuple[Feature, ...]:
    """Features that a checkpoint's config.json states. Raises ValueError if it is no list of features."""
    listed = names if isinstance(names, list) else [names]
    if unknown := [name for name in listed if name not in FEATURES]:
        raise ValueError(f"unknown feature {unknown[0]!r}; known: {', '.join(FEATURES)}")
    return tuple(listed)


class ListFeatures:
    """Features of lists, with a count of unknown ones."""

    def __init__(self, names: Sequence[Feature], table: npt.NDArray[np.float32], lexicon: Lexicon) -> None:
        """`table` [1 + V, d]: word vectors by the lexicon's rows."""
        self._names, self._lexicon = names, lexicon
        self._relatedness = Relatedness(table)
        self._missing = Counter[str]()

    def __call__(self, lists: Sequence[RankedList]) -> list[Floats]:
        """[candidates, features] of each list, which is in its original order."""
        features: list[Floats] = []
        for first in range(0, len(lists), LISTS):
            block = lists[first : first + LISTS]
            titles = self._titles(block) if "title" in self._names else [()] * len(block)
            features += map(self._of_list, block, titles)
        return features

    def _of_list(self, ranked: RankedList, titles: Column) -> Floats:
        columns: dict[str, Column] = {"title": titles}
        if set(self._names) & set(RETRIEVED):
            columns |= retrieval_columns(ranked)
        if "position" in self._names:
            columns["position"] = _positions(ranked.candidates)
        self._missing.update(
            {f"without_{name}": sum(value is None for value in columns[name]) for name in self._names}
        )
        rows = [[value or 0.0 for value in columns[name]] for name in self._names]
        return np.array(rows, np.float64).reshape(len(rows), len(ranked.candidates)).T

    def missing(self) -> Counter[str]:
        """'without_<feature>' → number of candidates without it, since the last call."""
        missing, self._missing = self._missing, Counter()
        return missing

    def _titles(self, lists: Sequence[RankedList]) -> list[Column]:
        """Feature `title` of each list's candidates."""
        titles = [[candidate.hit.passage.title for candidate in ranked.candidates] for ranked in lists]
        different = [list(dict.fromkeys(t for t in listed if t.strip())) for listed in titles]
        titled = [n for n, listed in enumerate(different) if listed]
        related: dict[int, dict[str, float]] = {}

        if titled:
            rows = iter(
                self._lexicon.rows([t for n in titled for t in (lists[n].question.text, *different[n])])
            )
            numbered = [(next(rows), list(islice(rows, len(different[n])))) for n in titled]
            for n, r_q in zip(titled, self._relatedness(EndToEnd.of(numbered))[0], strict=True):
                means = r_q.astype(np.float64).mean(1)  # over the question's words  [titles]
                related[n] = dict(zip(different[n], means.tolist(), strict=True))

        return [[related.get(n, {}).get(title) for title in listed] for n, listed in enumerate(titles)]


def _positions(candidates: Sequence[Candidate]) -> Column:
    """Feature `position` of each candidate; None if a data set does not state the sentence's place."""
    passages = {id(candidate.hit.passage): candidate.hit.passage for candidate in candidates}
    places = {
        key: {s.sentence_id: n for n, s in enumerate(passage.sentences)} for key, passage in passages.items()
    }

    def place(candidate: Candidate) -> float | None:
        if candidate.sentence is None:
            return 0
        if candidate.retrieval is not None:
            return candidate.retrieval["place"]
        return places[id(candidate.hit.passage)][candidate.sentence.sentence_id]

    return [None if (n := place(candidate)) is None else -log(1 + n) for candidate in candidates]
