"""Training of the list models, Cosinet and Compare-Aggregate, on labelled lists (Cosinet §5.2): a task of
`loop.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.cosinet.compare_aggregate import CompareAggregate, CompareAggregateModel
from answermill.ranking.rerankers.cosinet.cosinet import Cosinet, CosinetModel
from answermill.ranking.rerankers.cosinet.heads import Batch, Form, collate
from answermill.ranking.rerankers.cosinet.list_checkpoint import save_list_model
from answermill.ranking.rerankers.cosinet.list_features import ListFeatures
from answermill.ranking.rerankers.cosinet.list_settings import Feature, ListModelSettings
from answermill.ranking.training.inputs import Built, TrainingInputs, check_answered, missing
from answermill.ranking.training.loop import Dev
from answermill.ranking.word_vectors import vector_files
from answermill.ranking.word_vectors.embeddings import Embeddings, Store, derive
from answermill.ranking.word_vectors.words import Lexicon, Words
from answermill.schemas.labels import LabelledCandidate

WordVectorModel = CosinetModel | CompareAggregateModel


class Kind(NamedTuple):
    model: Callable[..., WordVectorModel]  # (vectors, form, filters), and the features of one that reads some
    reranker: Callable[[Any, Embeddings], Reranker]


MODELS: Mapping[str, Kind] = {
    "cosinet": Kind(CosinetModel, Cosinet),
    "compare_aggregate": Kind(CompareAggregateModel, CompareAggregate),
}


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Settings of the model that learns and of its steps."""

    reranker: str = "cosinet"
    """Name of the model in MODELS."""
    form: Form = "birnn"
    filters: int = 300
    features: Sequence[Feature] = ()
    batch: int = 1
    """Lists of a step."""
    seed: int = 0
    device: str = "cpu"


class ListTask:
    """Whole lists in random order, `batch` of them a step. Questions without an answer are left out
    (§5.1)."""

    def __init__(
        self,
        embeddings: Embeddings,
        questions: Sequence[Sequence[LabelledCandidate]],
        save: Callable[[Path, WordVectorModel, Embeddings], None],
        options: ListOptions = ListOptions(),
    ) -> None:
        """Raises ValueError if no question has an answer."""
        self._embeddings, self._save, self._options = embeddings, save, options
        kind, features = MODELS[options.reranker], options.features
        self._reranker = kind.reranker
        extra: dict[str, Any] = {"features": features} if features else {}
        model = kind.model(embeddings.vectors, options.form, options.filters, **extra)
        self.model: WordVectorModel = model.to(options.device)

        # A question's list: rows of its words, rows of its candidates' words, and labels.
        lexicon = Lexicon(embeddings)
        self._lists = []
        features_of = ListFeatures(features, embeddings.vectors, lexicon) if features else None
        answered = [rows for rows in questions if any(row.label for row in rows)]

        for rows in answered:
            question, *candidates = lexicon.rows([rows[0].question, *(row.text for row in rows)])
            self._lists.append((question, candidates, [float(row.label) for row in rows]))

        self._features = (
            None if features_of is None else features_of([ranked_list(rows) for rows in answered])
        )
        self.missing = features_of.missing() if features_of is not None else Counter[str]()
        """'without_<feature>' → number of candidates to learn from that lack it."""
        check_answered(self._lists, questions)

        self.steps = -(-len(self._lists) // options.batch)

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        return [(1.0, list(self.model.parameters()))]

    def batches(self, epoch: int) -> Iterator[Batch]:
        order = np.random.default_rng([self._options.seed, epoch]).permutation(len(self._lists))
        for first in range(0, len(order), self._options.batch):
            chosen = order[first : first + self._options.batch]
            features = None if self._features is None else [self._features[n] for n in chosen]
            yield collate([self._lists[n] for n in chosen], features).to(self._options.device)

    def loss(self, batch: Batch) -> Tensor:
        return self.model.loss(batch)

    def reranker(self) -> Reranker:
        return self._reranker(self.model, self._embeddings)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model, self._embeddings)


def vocabulary(questions: Sequence[Sequence[LabelledCandidate]]) -> Counter[str]:
    """Number of occurrences of each word in the questions and candidates."""
    words, counts = Words(), Counter[str]()
    for rows in questions:
        for text in (rows[0].question, *(row.text for row in rows)):
            counts.update(words.tokens(text))
    return counts


def build(inputs: TrainingInputs[ListModelSettings]) -> Built:
    """Build a training that begins with new weights, over vectors of the words of all its texts.

    Raises VectorsUnreadable if the file of vectors cannot be read; ValueError if the vectors are to be left
    out of the checkpoint and have no other source.
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
        raise ValueError(
            f"model.vectors = 'source': {file} is a file of vectors, which must be stored with the checkpoint"
        )

    stored: Store = "source" if settings.vectors == "source" else settings.store

    def write(folder: Path, model: WordVectorModel, embeddings: Embeddings) -> None:
        save_list_model(folder, model, embeddings, settings.store, stored)

    options = ListOptions(
        reranker=settings.reranker,
        form=settings.form,
        filters=settings.filters,
        features=settings.features or (),
        batch=inputs.batch or 1,
        seed=inputs.recipe.seed,
        device=inputs.device,
    )
    task = ListTask(embeddings, inputs.learn, write, options)

    return Built(
        task,
        Dev(inputs.dev),
        description + missing(task.missing) + _missing_in_dev(settings, embeddings, inputs.dev),
    )


def _missing_in_dev(
    settings: ListModelSettings, embeddings: Embeddings, dev: Sequence[Sequence[LabelledCandidate]]
) -> str:
    """Counts of the dev set's candidates that lack a feature, for display; '' if there is none."""
    if not settings.features:
        return ""
    features = ListFeatures(settings.features, embeddings.vectors, Lexicon(embeddings))
    features([ranked_list(rows) for rows in dev])
    lacking = {name: n for name, n in features.missing().items() if n}
    return "; dev" + missing(lacking).removeprefix(",") if lacking else ""
