"""Compare-Aggregate (Wang & Jiang, ICLR 2017) as Bonadiman & Moschitti (COLING 2020) re-implement it, in the
same six forms.

Reads sentences, writes sentences. Every word is compared with the words that attention finds for it in the
other text, and a convolution of each window from 1 to 5 aggregates the comparisons. Sections and equations
are Wang & Jiang's.

The Cosinet paper gives no more than "the standard parameters of the original paper", static vectors, and
parameters (Table 4). The parameters that a recurrent layer adds there, 2.16 M (RNN) and 1.98 M (BiRNN), have
one solution: 3,000 inputs and 600 hidden, 300 in each direction. 3,000 = 2 · 5 · 300: as in Cosinet both
texts are encoded, by 300 filters of each window, and their product and difference are read; 600 is §5.2's
"double of the size of the convolutional operation hidden layer". With 300 numbers a word:

    two sides of five convolutions                2 · (15 · 300 · 300 + 5 · 300) = 2,703,000
    SUBMULT+NN, one for both sides                600 · 300 + 300                =   180,300
    the last layer, after 3,000 or after 600      3,001 or 601
    pointwise and list 2,886,301 · rnn 5,045,101 · birnn 4,865,101 · lstm 11,528,701 · bilstm 10,808,701

which are the table's 2.89, 5.05, 4.87, 11.53 and 10.81 M. The 180 k beside the convolutions fit one other
choice: the gated projection of Eq. 1 (180,600) and MULT, Eq. 7, which has no parameters. That one was tried
and ranked worse in every form. The parameters leave no room for the projection beside SUBMULT+NN, for the
matrix W^g of the attention, or for a layer between pooling and scores: attention reads the words' own
vectors.

Our choice: word vectors are scaled, so that attention finds a similar word among twenty others and still
weighs the others. Vectors of length 1, such as Numberbatch's, leave it almost uniform; with much longer ones
it is on one word alone. SHARPNESS was chosen on WikiQA's dev set.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.cosinet.heads import (
    Batch,
    Form,
    Head,
    NumberedList,
    collate,
    embed,
    loss,
    real,
    rerank,
    score,
)
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model
from answermill.ranking.rerankers.cosinet.list_settings import Feature
from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.ranked import CandidateKind, RankedList

WINDOWS = (1, 2, 3, 4, 5)
SHARPNESS = 7.0
"""Sharpness of attention: mean product of a word with itself after scaling."""


class CompareAggregateModel(nn.Module):
    """Model of scores from rows of the table. It has no dropout; the re-implementation does not state any."""

    name: ClassVar[str] = "compare_aggregate"

    def __init__(self, vectors: npt.NDArray[np.float32], form: Form, filters: int = 300) -> None:
        super().__init__()
        self.form, self.filters = form, filters
        self.features: tuple[Feature, ...] = ()
        self.vectors: Tensor
        mean_square = np.square(vectors).sum() / max(1, len(vectors) - 1) or 1.0
        scaled = (vectors * np.sqrt(SHARPNESS / mean_square)).astype(np.float32)

        # [1 + V, d]: static, no parameter.
        self.register_buffer("vectors", torch.from_numpy(scaled), persistent=False)
        self.compare = nn.Linear(2 * vectors.shape[1], filters)
        self.question, self.candidate = (
            nn.ModuleList(nn.Conv1d(filters, filters, window) for window in WINDOWS) for _ in range(2)
        )
        self.head = Head(form, inputs=2 * len(WINDOWS) * filters, hidden=2 * filters)

    def forward(self, batch: Batch) -> Tensor:
        """Scores [pairs]."""
        scores: Tensor = self.head(self.pairs(batch.paired, batch.candidates), batch.sizes)
        return scores

    def loss(self, batch: Batch) -> Tensor:
        return loss(self.form, self(batch), batch)

    def pairs(self, question: Tensor, candidate: Tensor) -> Tensor:
        """[q ⊙ c; q − c] [pairs, 10 filters], from rows [pairs, words] of both texts."""
        q, c = (embed(self.vectors, rows).to(self.compare.weight.dtype) for rows in (question, candidate))
        match = q @ c.mT  # [pairs, question words, candidate words]
        # H, Eq. 2, in both directions.
        for_q = match.masked_fill(~real(candidate)[:, None], -torch.inf).softmax(2) @ c
        for_c = match.mT.masked_fill(~real(question)[:, None], -torch.inf).softmax(2) @ q
        q = _aggregate(self.question, self._submult(q, for_q), real(question))
        c = _aggregate(self.candidate, self._submult(c, for_c), real(candidate))
        return torch.cat([q * c, q - c], 1)

    def _submult(self, words: Tensor, attended: Tensor) -> Tensor:
        """SUBMULT+NN, Eq. 8: [pairs, words, filters], from words and attended vectors [pairs, words, d]."""
        compared: Tensor = self.compare(torch.cat([(words - attended).square(), words * attended], 2))
        return compared.relu()


def _aggregate(convs: nn.ModuleList, compared: Tensor, real: Tensor) -> Tensor:
    """[texts, 5 filters]: CNN of §2.3, each window's convolution, ReLU, and maximum over the places, which
    are as many as the words.

    The words of all texts are laid in one row, with zeros between the texts. One product gives the share of
    each word in the places around it, for each window and each place in it; a convolution is the sum of
    these, shifted.
    """
    gap, device = max(WINDOWS) // 2, compared.device
    sizes = real.sum(1)

    # All texts in one column, with a gap of zeros that no window reaches across.
    position = torch.arange(int(sizes.sum()), device=device)  # [words]: the place of each
    position = position + gap * (1 + torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes))
    places = len(position) + gap * (len(sizes) + 1)

    # Products of few shapes, whose kernels are made once.
    x = compared.new_zeros(places + -places % 64, compared.shape[2])
    x = x.index_copy(0, position, compared[real])

    # One product gives the share of each word in each place of each window.
    weights = torch.cat([conv.weight.permute(2, 0, 1).flatten(0, 1) for conv in cast(list[nn.Conv1d], convs)])
    taps = iter(F.linear(x, weights).chunk(sum(WINDOWS), 1))  # [places, filters] each

    pooled = []
    for window, conv in zip(WINDOWS, cast(list[nn.Conv1d], convs), strict=True):
        h = torch.zeros_like(x)
        for ahead in range(-((window - 1) // 2), window // 2 + 1):
            h = h + F.pad(next(taps), (0, 0, -ahead, ahead))
        h = h[position].to(x.dtype) + cast(Tensor, conv.bias)
        pooled.append(torch.segment_reduce(h, "max", lengths=sizes).relu())

    return torch.cat(pooled, 1)


class CompareAggregate:
    """Reranker by the model's score; scores of different models cannot be compared. `save_list_model` writes
    its checkpoints."""

    name: ClassVar[str] = "compare_aggregate"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, model: CompareAggregateModel, embeddings: Embeddings) -> None:
        self._lexicon = Lexicon(embeddings)
        self._model = copy.deepcopy(model)
        for weight in self._model.parameters():  # in float64 a score does not depend on the rest of the batch
            weight.data = weight.data.double()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        model, embeddings = load_list_model(resources.folder(), CompareAggregateModel, resources.model)
        return cls(model.to(resources.device), embeddings)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return rerank(lists, self._lexicon, self.scores, self.name)

    def scores(self, lists: Sequence[NumberedList]) -> list[npt.NDArray[np.float64]]:
        """Score per candidate of each list, whose candidates are in their original order."""
        return score(self._pairs, self._model.head, lists)

    def _pairs(self, block: Sequence[NumberedList]) -> Tensor:
        batch = collate([(question, candidates, [0.0] * len(candidates)) for question, candidates in block])
        batch = batch.to(self._model.vectors.device)
        return self._model.pairs(batch.paired, batch.candidates)
