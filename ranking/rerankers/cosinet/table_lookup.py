"""Cosinet's scores by look-up: a convolution is linear and the word vectors are static, so words are
convolved, not texts.

For each word in use and each tap of the kernel, w · W_k is computed once. A place of a convolution is then
the sum of its five words' rows and of the relatedness channel's five rows, each times the relatedness of its
word: a weighted sum of ten rows, PyTorch's `embedding_bag`. Relatedness is one product of the list's
different words and the question's.

The scores are those of `CosinetModel` to 1e-5. They do not depend on the blocks of candidates or the other
lists of a call: rows are summed one by one, and matrix products whose shape would depend on them have a fixed
shape, or run in float64, whose noise vanishes when it is rounded.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.rerankers.cosinet.heads import Head, NumberedList, score
from answermill.schemas.arrays import Ints, Singles

Rows = npt.NDArray[np.int32]

BAG_PLACES = 768  # of a convolution at once: with 300 filters they stay in a core's cache
TABLE_WORDS = 65_536  # 0.4 GB with 300 filters
PRODUCT_WORDS = 128
ENTER_WORDS = 16


class LookUp:
    """Scores of a `CosinetModel` in its present state, on the device of its table; relatedness is computed on
    the CPU."""

    def __init__(self, vectors: Tensor, question: nn.Conv1d, candidate: nn.Conv1d, head: Head) -> None:
        table = vectors.cpu().numpy()
        self._question, self._candidate = Taps(question, table), Taps(candidate, table)
        self._relatedness = Relatedness(table)
        self._head = copy.deepcopy(head).double()

    def scores(
        self, lists: Sequence[NumberedList], features: Sequence[npt.NDArray[np.float64]] | None = None
    ) -> list[npt.NDArray[np.float64]]:
        """Score per candidate of each list, whose candidates are in their original order.

        `features`: [candidates, features] of each list, if the model reads some.
        """
        return score(self._pairs, self._head, lists, features)

    def _pairs(self, block: Sequence[NumberedList]) -> Tensor:
        """[q ⊙ c; q − c] of every pair [pairs, 2 filters]."""
        laid = EndToEnd.of(block)
        r_q, r_c = self._relatedness(laid)
        repeated = [np.tile(text, size) for text, size in zip(laid.questions, laid.sizes, strict=True)]
        q = self._question.encode(
            np.concatenate(repeated),
            np.concatenate([related.ravel() for related in r_q]),
            np.array(list(map(len, laid.questions))).repeat(laid.sizes),
        )
        c = self._candidate.encode(laid.rows, r_c, laid.lengths)
        return torch.cat([q * c, q - c], 1)


class EndToEnd(NamedTuple):
    """Questions, and their texts end to end. A text without words is one place without a word."""

    questions: Sequence[Rows]
    rows: Rows
    """Rows of all texts."""
    lengths: Ints
    """Words of each text."""
    sizes: Ints
    """Texts of each question, one at least."""

    @classmethod
    def of(cls, lists: Sequence[NumberedList]) -> EndToEnd:
        texts = [text or (0,) for _, candidates in lists for text in candidates]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        rows = np.fromiter(chain.from_iterable(texts), np.int32, lengths.sum())
        questions = [np.array(question or (0,), np.int32) for question, _ in lists]
        return cls(questions, rows, lengths, np.array([len(candidates) for _, candidates in lists]))


class Relatedness:
    """r_i = max_j cos(w_i, w_j) of questions and their texts, in both directions (§4.1.1); 1 where rows
    match."""

    def __init__(self, table: Singles) -> None:
        self._table = table
        self._lengths = np.maximum(np.linalg.norm(table, axis=1), np.float32(1e-12))

    def __call__(self, laid: EndToEnd) -> tuple[list[Singles], Singles]:
        """Relatedness of each question's words [its texts, question words], and of the texts' words, end to
        end."""
        questions = laid.questions
        owner = np.arange(len(questions)).repeat(laid.sizes).repeat(laid.lengths)
        words, owner, number = _distinct(laid.rows, owner)
        asked = np.full((len(questions), max(map(len, questions))), -1, np.int32)  # -1: no place
        cos = np.full((len(words), asked.shape[1]), -2, np.float32)
        bounds = np.searchsorted(owner, np.arange(len(questions) + 1))

        for n, question in enumerate(questions):
            own = slice(bounds[n], bounds[n + 1])
            asked[n, : len(question)] = question
            cos[own, : len(question)] = self._cosines(words[own], question)
        cos[(words[:, None] == asked[owner]) & (words[:, None] > 0)] = 1

        # [texts, question words], of which each question has a part.
        r_q = np.maximum.reduceat(cos[number], laid.lengths.cumsum() - laid.lengths)
        texts = np.split(r_q, laid.sizes.cumsum()[:-1])
        parts = [part[:, : len(question)] for part, question in zip(texts, questions, strict=True)]
        return parts, cos.max(1)[number]

    def _cosines(self, words: Rows, question: Rows) -> Singles:
        """Cosines [words, question words], by products of a fixed number of words, filled up with row 0."""
        filled = np.zeros(-len(words) // PRODUCT_WORDS * -PRODUCT_WORDS, np.int32)
        filled[: len(words)] = words
        filled[filled >= len(self._table)] = 0
        question_rows = np.where(question < len(self._table), question, 0)
        question_vectors = self._aligned(question_rows) / torch.from_numpy(self._lengths[question_rows, None])
        # One by one: PyTorch makes one product of all of them, whose shape would depend on the list.
        parts = torch.split(self._aligned(filled), PRODUCT_WORDS)
        products = torch.cat([part @ question_vectors.T for part in parts]).numpy()
        cos: Singles = products / self._lengths[filled, None]
        return cos[: len(words)]

    def _aligned(self, rows: Ints | Rows) -> Tensor:
        """The vectors of rows, filled up with zeros so that each begins at a multiple of 16 bytes: how a
        product is summed depends on where a vector begins."""
        vectors = torch.from_numpy(self._table.take(rows, axis=0))
        return F.pad(vectors, (0, -vectors.shape[1] % 4)) if vectors.shape[1] % 4 else vectors


def _distinct(rows: Rows, owner: Ints) -> tuple[Rows, Ints, Ints]:
    """The different rows of each owner, in the owners' order, whose they are, and the number of each row
    among them.

    >>> _distinct(np.array([7, 5, 7, 7]), np.array([0, 0, 0, 1]))
    (array([5, 7, 7]), array([0, 0, 1]), array([1, 0, 1, 2]))
    """
    size = int(rows.max()) + 1
    keys, number = np.unique(owner * size + rows, return_inverse=True)
    return (keys % size).astype(rows.dtype), keys // size, number


class Taps:
    """One side's convolution as a table: place in the table × tap → [filters]. New words are added on demand.

    Place 0 is no word, place 1 the relatedness channel; a full table starts again.
    """

    def __init__(self, conv: nn.Conv1d, table: Singles, limit: int = TABLE_WORDS) -> None:
        weight = conv.weight.detach().permute(2, 1, 0)  # [taps, d + 1, filters]
        self._kernel, self._filters = weight.shape[0], weight.shape[2]
        self._weight = weight[:, :-1].transpose(0, 1).flatten(1)  # [d, taps · filters]
        self._bias = torch.zeros(()) if conv.bias is None else conv.bias.detach().clone()
        self._vectors, self._limit = table, limit
        self._channel = weight[:, -1].clone()  # [taps, filters]
        self._start(min(limit, len(table)))

    def _start(self, words: int) -> None:
        self._place = np.zeros(len(self._vectors), np.int32)  # row → place
        # The table takes no memory before it is written.
        self._taps = self._weight.new_empty(2 + words, self._kernel, self._filters)
        self._taps[0], self._taps[1] = 0, self._channel
        self._used = 2

    @torch.inference_mode()
    def encode(self, rows: Rows, related: Singles, lengths: Ints) -> Tensor:
        """Encodings [texts, filters] of texts, whose rows and relatedness of words are laid end to end."""
        index, weights = self._bags(rows, related, lengths)
        table, device = self._taps.view(-1, self._filters), self._taps.device
        h = table.new_empty(len(lengths), self._filters)
        starts, order = lengths.cumsum() - lengths, np.argsort(-lengths, kind="stable")
        first = 0

        while first < len(order):
            longest = lengths[order[first]]
            texts = order[first : first + max(1, BAG_PLACES // longest)]
            first += len(texts)
            # Past its end a text repeats its last place.
            place = np.minimum(np.arange(longest), lengths[texts, None] - 1)
            bags = (starts[texts, None] + place).ravel()
            i, w = torch.from_numpy(index[bags]).to(device), torch.from_numpy(weights[bags]).to(device)
            places = F.embedding_bag(i, table, per_sample_weights=w, mode="sum").view(
                len(texts), longest, self._filters
            )
            h[torch.from_numpy(texts).to(device)] = places.amax(1)

        return (h + self._bias).relu()

    def _bags(self, rows: Rows, related: Singles, lengths: Ints) -> tuple[Rows, Singles]:
        """Terms of the sum at each place of the texts: rows of the table and their weights  [words, 2 ·
        kernel] both."""
        margin, kernel = self._kernel // 2, np.arange(self._kernel)
        position = np.arange(len(rows)) + margin * np.repeat(
            np.arange(1, len(lengths) + 1), lengths
        )  # empty places between texts
        words = np.zeros(len(rows) + margin * (len(lengths) + 1), np.int32)
        relate = np.zeros(len(words), np.float32)
        words[position], relate[position] = self._places(rows), related
        window = position[:, None] + (kernel - margin)
        index, weights = (
            np.empty((len(rows), 2, self._kernel), np.int32),
            np.ones((len(rows), 2, self._kernel), np.float32),
        )
        index[:, 0] = words[window] * self._kernel + kernel

        index[:, 1] = self._kernel + kernel
        weights[:, 1] = relate[window]
        return index.reshape(len(rows), -1), weights.reshape(len(rows), -1)

    def _places(self, rows: Rows) -> Rows:
        rows = np.where(rows < len(self._place), rows, 0)
        new = np.unique(rows[(self._place[rows] == 0) & (rows > 0)])
        if self._used + len(new) > len(self._taps):
            new = np.unique(rows[rows > 0])
            self._start(max(self._limit, len(new)))
        self._enter(new)
        return self._place[rows]

    def _enter(self, rows: Rows) -> None:
        first, self._used = self._used, self._used + len(rows)
        for start in range(0, len(rows), ENTER_WORDS):  # in products of a fixed shape, filled up with no word
            words = np.zeros(ENTER_WORDS, np.int64)
            words[: len(rows) - start] = rows[start : start + ENTER_WORDS]
            products = torch.from_numpy(self._vectors[words]).to(self._weight.device) @ self._weight
            end = min(ENTER_WORDS, len(rows) - start)
            self._taps[first + start : first + start + end] = products.view(-1, self._kernel, self._filters)[
                :end
            ]
        self._place[rows] = np.arange(first, self._used)
