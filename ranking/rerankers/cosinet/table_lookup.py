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

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.rerankers.cosinet.heads import Head, NumberedList, score
from answermill.schemas.arrays import Singles

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
        # A text without words is one place without a word.
        texts = [text or (0,) for _, candidates in block for text in candidates]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        rows = np.fromiter(chain.from_iterable(texts), np.int32, lengths.sum())

        questions, question_lengths, related_q, related_c, pair, word = [], [], [], [], 0, 0
        for text, candidates in block:
            question = np.array(text or (0,), np.int32)
            own_lengths = lengths[pair : pair + len(candidates)]
            r_q, r_c = self._relatedness(question, rows[word : word + own_lengths.sum()], own_lengths)
            questions.append(np.tile(question, len(candidates)))
            question_lengths.append(np.full(len(candidates), len(question)))
            related_q.append(r_q.ravel())
            related_c.append(r_c)
            pair, word = pair + len(candidates), word + own_lengths.sum()

        q = self._question.encode(
            np.concatenate(questions), np.concatenate(related_q), np.concatenate(question_lengths)
        )
        c = self._candidate.encode(rows, np.concatenate(related_c), lengths)
        return torch.cat([q * c, q - c], 1)


class Relatedness:
    """r_i = max_j cos(w_i, w_j) of one question and its candidates, in both directions (§4.1.1); 1 where rows
    match."""

    def __init__(self, table: Singles) -> None:
        self._table = table
        self._lengths = np.maximum(np.linalg.norm(table, axis=1), np.float32(1e-12))
        self._last = np.zeros(len(table), np.int64)  # row → last place at which it was found

    def __call__(self, question: Rows, rows: Rows, lengths: npt.NDArray[np.int64]) -> tuple[Singles, Singles]:
        """Relatedness of the question's words [candidates, question words] and of the candidates' [words].
        `rows`: rows of the candidates, end to end."""
        words, number = self._distinct(rows)
        cos = self._cosines(words, question)  # [different words, question words]
        cos[(words[:, None] == question) & (words[:, None] > 0)] = 1
        r_q = np.maximum.reduceat(cos[number], lengths.cumsum() - lengths)
        return r_q, cos.max(1)[number]

    def _distinct(self, rows: Rows) -> tuple[Rows, npt.NDArray[np.int64]]:
        """The different rows, and the number among them at each place: `np.unique` without its sorting."""
        if (most := int(rows.max())) >= len(self._last):
            self._last = np.zeros(2 * most, np.int64)
        places = np.arange(len(rows))
        self._last[rows] = places
        last = self._last[rows]
        chosen = last == places
        return rows[chosen], (chosen.cumsum() - 1)[last]

    def _cosines(self, words: Rows, question: Rows) -> Singles:
        """Cosines [words, question words], by products of a fixed number of words, filled up with row 0."""
        filled = np.zeros(-len(words) // PRODUCT_WORDS * -PRODUCT_WORDS, np.int32)
        filled[: len(words)] = words
        filled[filled >= len(self._table)] = 0
        question_rows = np.where(question < len(self._table), question, 0)
        question_vectors = torch.from_numpy(self._table[question_rows] / self._lengths[question_rows, None])
        vectors = torch.from_numpy(
            self._table.take(filled, axis=0).reshape(-1, PRODUCT_WORDS, self._table.shape[1])
        )
        products = (vectors @ question_vectors.T).view(len(filled), len(question)).numpy()
        cos: Singles = products / self._lengths[filled, None]
        return cos[: len(words)]


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
    def encode(self, rows: Rows, related: Singles, lengths: npt.NDArray[np.int64]) -> Tensor:
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

    def _bags(self, rows: Rows, related: Singles, lengths: npt.NDArray[np.int64]) -> tuple[Rows, Singles]:
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
