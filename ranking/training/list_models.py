"""Training of the list models, Cosinet and Compare-Aggregate, on labelled lists (Cosinet §5.2): a task of `train.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from ranking.cosinet.compare_aggregate import CompareAggregate, CompareAggregateModel
from ranking.cosinet.cosinet import Cosinet, CosinetModel
from ranking.cosinet.heads import Batch, Form, collate
from ranking.reranker import Reranker
from ranking.word_vectors.embeddings import Embeddings
from ranking.word_vectors.words import Lexicon, Words
from schemas.labels import LabelledCandidate

ListModel = CosinetModel | CompareAggregateModel


class Kind(NamedTuple):
    model: Callable[[Any, Form, int], ListModel]  # (vectors, form, filters)
    reranker: Callable[[Any, Embeddings], Reranker]


MODELS: Mapping[str, Kind] = {
    "cosinet": Kind(CosinetModel, Cosinet),
    "compare_aggregate": Kind(CompareAggregateModel, CompareAggregate),
}


class ListTask:
    """Whole lists in random order, `batch` of them a step; questions without an answer are left out (§5.1)."""

    def __init__(
        self,
        name: str,
        form: Form,
        embeddings: Embeddings,
        questions: Sequence[Sequence[LabelledCandidate]],
        save: Callable[[Path, ListModel, Embeddings], None],
        *,
        batch: int = 1,
        filters: int = 300,
        seed: int = 0,
    ) -> None:
        """Raises ValueError where no question has an answer."""
        self._reranker = MODELS[name].reranker
        self.model: ListModel = MODELS[name].model(embeddings.vectors, form, filters)
        self._embeddings, self._save, self._batch, self._seed = embeddings, save, batch, seed
        lexicon = Lexicon(embeddings)
        self._lists = []
        for rows in questions:
            if any(row.label for row in rows):
                question, *candidates = lexicon.rows([rows[0].question, *(row.text for row in rows)])
                self._lists.append((question, candidates, [float(row.label) for row in rows]))
        if not self._lists:
            raise ValueError(f"none of the {len(questions)} questions has an answer; there is nothing to learn from")
        self.steps = -(-len(self._lists) // batch)

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        return [(1.0, list(self.model.parameters()))]

    def batches(self, epoch: int) -> Iterator[Batch]:
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._lists))
        for first in range(0, len(order), self._batch):
            yield collate([self._lists[n] for n in order[first : first + self._batch]])

    def loss(self, batch: Batch) -> Tensor:
        return self.model.loss(batch)

    def reranker(self) -> Reranker:
        return self._reranker(self.model, self._embeddings)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model, self._embeddings)


def vocabulary(questions: Sequence[Sequence[LabelledCandidate]]) -> Counter[str]:
    """How often each word stands in the questions and candidates."""
    words, found = Words(), Counter[str]()
    for rows in questions:
        for text in (rows[0].question, *(row.text for row in rows)):
            found.update(words.tokens(text))
    return found
