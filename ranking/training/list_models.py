"""Training of the list models, Cosinet and Compare-Aggregate, on labelled lists (Cosinet §5.2): a task of `loop.py`."""

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
from ranking.cosinet.list_checkpoint import save_list_model
from ranking.cosinet.list_settings import ListModelSettings
from ranking.reranker import Reranker
from ranking.training.inputs import Built, TrainingInputs
from ranking.training.loop import Dev
from ranking.word_vectors import vector_files
from ranking.word_vectors.embeddings import Embeddings, Store, derive
from ranking.word_vectors.words import Lexicon, Words
from schemas.labels import LabelledCandidate

WordVectorModel = CosinetModel | CompareAggregateModel


class Kind(NamedTuple):
    model: Callable[[Any, Form, int], WordVectorModel]  # (vectors, form, filters)
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
        save: Callable[[Path, WordVectorModel, Embeddings], None],
        *,
        batch: int = 1,
        filters: int = 300,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        """Raises ValueError if no question has an answer."""
        self._reranker = MODELS[name].reranker
        self.model: WordVectorModel = MODELS[name].model(embeddings.vectors, form, filters).to(device)
        self._device = device
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
            yield collate([self._lists[n] for n in order[first : first + self._batch]]).to(self._device)

    def loss(self, batch: Batch) -> Tensor:
        return self.model.loss(batch)

    def reranker(self) -> Reranker:
        return self._reranker(self.model, self._embeddings)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model, self._embeddings)


def vocabulary(questions: Sequence[Sequence[LabelledCandidate]]) -> Counter[str]:
    """How often each word occurs in the questions and candidates."""
    words, counts = Words(), Counter[str]()
    for rows in questions:
        for text in (rows[0].question, *(row.text for row in rows)):
            counts.update(words.tokens(text))
    return counts


def build(inputs: TrainingInputs[ListModelSettings]) -> Built:
    """Begins with new weights over vectors of the words of all its texts.

    Raises VectorsUnreadable if the file of vectors cannot be read; ValueError if the vectors are to be left out of the
    checkpoint and have no other source.
    """
    settings, words = inputs.settings, vocabulary([*inputs.learn, *inputs.dev])
    tokens = Words()
    for name in settings.vocabulary:
        for text in inputs.texts(name):
            words.update(tokens.tokens(text))
    words = Counter({word: count for word, count in words.items() if count >= settings.min_count})
    file = inputs.path(settings.embeddings)
    if file.is_file():
        embeddings, report = vector_files.read(file, words)
        description = str(report)
    else:
        embeddings = derive(words, inputs.model(settings.embeddings), settings.embeddings)
        description = f"{len(embeddings.words):,} word vectors from the pieces of {settings.embeddings}"
    if settings.vectors == "source" and embeddings.source is None:
        raise ValueError(f"model.vectors = 'source': {file} is a file of vectors, which must be stored with the checkpoint")
    stored: Store = "source" if settings.vectors == "source" else settings.store

    def write(folder: Path, model: WordVectorModel, embeddings: Embeddings) -> None:
        save_list_model(folder, model, embeddings, settings.store, stored)

    task = ListTask(
        settings.reranker,
        settings.form,
        embeddings,
        inputs.learn,
        write,
        batch=inputs.batch or 1,
        filters=settings.filters,
        seed=inputs.recipe.seed,
        device=inputs.device,
    )
    return Built(task, Dev(inputs.dev), description)
