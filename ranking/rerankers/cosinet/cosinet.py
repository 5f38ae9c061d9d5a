"""Cosinet (Bonadiman & Moschitti, COLING 2020): sentences ranked by static word vectors and by the original
order.

Reads sentences, writes sentences. This file is §4.1: the relatedness of words, one convolution for the
question and one for the candidate, their product and difference. §4.2 is `heads.py`; `table_lookup.py` gives
the same scores much faster.

Our choices, which the paper leaves open: a ReLU follows the convolution, as in Severyn & Moschitti (2016),
whom §4.1.2 follows; the convolution has as many places as the text has words (two empty ones stand before and
after it), so that texts shorter than the kernel have a vector; no dropout; PyTorch's initialisation; a text
without words is one place without a word. A word that the table lacks has a vector of zeros, and relatedness
1 if the same word stands in the other text, else 0: a rare name in question and candidate is recognised
without any vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.cosinet.heads import Batch, Form, Head, embed, loss, real, rerank
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model
from answermill.ranking.rerankers.cosinet.list_features import ListFeatures
from answermill.ranking.rerankers.cosinet.list_settings import Feature
from answermill.ranking.rerankers.cosinet.table_lookup import LookUp
from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.ranked import CandidateKind, RankedList

KERNEL = 5


class CosinetModel(nn.Module):
    """Model of scores from rows of the table. With 300 numbers a word and 300 filters it has the parameters
    of Table 4:

    pointwise and list 904,201; rnn 1,174,501; birnn 1,129,501; lstm 1,986,301; bilstm 1,806,301.

    Departs from the paper if `features` are named (`list_features.py`): they stand beside each q_ce.
    """

    name: ClassVar[str] = "cosinet"

    def __init__(
        self,
        vectors: npt.NDArray[np.float32],
        form: Form,
        filters: int = 300,
        features: Sequence[Feature] = (),
    ) -> None:
        super().__init__()
        self.form, self.filters, self.features = form, filters, tuple(features)
        self.vectors: Tensor
        # [1 + V, d]: static, no parameter.
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)
        self.question = nn.Conv1d(vectors.shape[1] + 1, filters, KERNEL)
        self.candidate = nn.Conv1d(vectors.shape[1] + 1, filters, KERNEL)
        self.head = Head(form, inputs=2 * filters + len(self.features), hidden=filters)

    def forward(self, batch: Batch) -> Tensor:
        """Scores [pairs]. A model that reads features cannot read a batch without them."""
        pairs = self.pairs(batch.paired, batch.candidates)
        if batch.features is not None:
            pairs = torch.cat([pairs, batch.features], 1)
        scores: Tensor = self.head(pairs, batch.sizes)
        return scores

    def loss(self, batch: Batch) -> Tensor:
        return loss(self.form, self(batch), batch)

    def pairs(self, question: Tensor, candidate: Tensor) -> Tensor:
        """q_ce = [q ⊙ c; q − c] (§4.1.2) [pairs, 2 filters], from rows [pairs, words] of both texts."""
        r_q, r_c = relatedness(self.vectors, question, candidate)
        q = convolve(self.question, self.vectors, question, r_q)
        c = convolve(self.candidate, self.vectors, candidate, r_c)
        return torch.cat([q * c, q - c], 1)


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The different rows of the texts, 0 first; and the number among them of each word [texts, words].

    Zeros fill up to a multiple of 64: matrix products of few shapes, whose kernels are made once.
    """
    words, number = torch.unique(F.pad(rows.flatten(), (1, 0)), return_inverse=True)
    return F.pad(words, (0, -len(words) % 64)), number[1:].view_as(rows)


@torch.no_grad()
def relatedness(vectors: Tensor, question: Tensor, candidate: Tensor) -> tuple[Tensor, Tensor]:
    """r_i = max_j cos(w_i^q, w_j^c) of the question's words [pairs, question words], and likewise of the
    candidate's [pairs, candidate words]; 1 where rows match, 0 for padding (§4.1.1).

    `question`, `candidate`: rows [pairs, words]. The cosine of two different words is computed once, in
    float64, without gradient or autocast.
    """
    (question_words, q), (candidate_words, c) = distinct(question), distinct(candidate)
    w_q, w_c = (F.normalize(embed(vectors, words).double()) for words in (question_words, candidate_words))
    table = (w_q @ w_c.T).masked_fill(
        (question_words[:, None] == candidate_words) & (question_words > 0)[:, None], 1
    )  # [different words, different words]
    cos = table.to(vectors.dtype)[q[:, :, None], c[:, None]]  # [pairs, question words, candidate words]
    r_q = cos.masked_fill(~real(candidate)[:, None], -2).amax(2)
    r_c = cos.masked_fill(~real(question)[:, :, None], -2).amax(1)
    return r_q.masked_fill(question == 0, 0), r_c.masked_fill(candidate == 0, 0)


def convolve(conv: nn.Conv1d, vectors: Tensor, rows: Tensor, related: Tensor) -> Tensor:
    """[texts, filters]: convolution of [w; r], and its maximum over the places (§4.1.2).

    A convolution is linear, so each different word w of the batch is multiplied with each tap W_k of the
    kernel once, and a place is the sum of its window's five w · W_k and five r · u_k, where u_k is the tap of
    the relatedness channel. This halves a training step; `table_lookup.py` keeps the products from batch to
    batch.
    """
    words, number = distinct(rows)
    weight = conv.weight.permute(1, 2, 0)  # [d + 1, taps, filters]
    # [words · taps, filters].
    taps = (embed(vectors, words) @ weight[:-1].flatten(1)).view(-1, conv.out_channels)
    tap, places, margin = torch.arange(KERNEL, device=rows.device), real(rows), KERNEL // 2

    def windows(x: Tensor) -> Tensor:  # [texts, words] → [places, taps]
        return F.pad(x, (margin, margin)).unfold(1, KERNEL, 1)[places]

    index = windows(number) * KERNEL + tap
    index = torch.cat([index, (len(taps) + tap).expand_as(index)], 1)  # [places, 2 · taps]
    weights = F.pad(windows(related), (KERNEL, 0), value=1)

    # [places, filters].
    h = F.embedding_bag(index, torch.cat([taps, weight[-1]]), per_sample_weights=weights, mode="sum")
    h = torch.segment_reduce(h, "max", lengths=places.sum(1))  # [texts, filters]
    return F.relu(h if conv.bias is None else h + conv.bias)


class Cosinet:
    """Reranker by the model's score; scores of different models cannot be compared. `save_list_model` writes
    its checkpoints.

    Its costs are the candidates without a feature that the model reads.
    """

    name: ClassVar[str] = "cosinet"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, model: CosinetModel, embeddings: Embeddings) -> None:
        self._lexicon = Lexicon(embeddings)
        self._lookup = LookUp(model.vectors, model.question, model.candidate, model.head)
        table = model.vectors.cpu().numpy()
        self._features = ListFeatures(model.features, table, self._lexicon) if model.features else None

    @classmethod
    def load(cls, resources: Resources) -> Self:
        model, embeddings = load_list_model(resources.folder(), CosinetModel, resources.model)
        return cls(model.to(resources.device), embeddings)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return rerank(lists, self._lexicon, self._lookup.scores, self.name, self._features)

    def costs(self) -> Counter[str]:
        """Number of candidates without a feature since the last call; empty for a model that reads none."""
        return Counter() if self._features is None else self._features.missing()


class CosinetPassages(Cosinet):
    """Cosinet on passages: whole paragraphs are the candidates, as in NQ-LA (§5.1)."""

    name: ClassVar[str] = "cosinet_passages"
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"
