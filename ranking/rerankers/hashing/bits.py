"""Answers as bits: HAS (Xu & Li, AAAI 2020, "Hashing Layer" and "Composition Layer") at prediction time, from
a packed store.

An answer's matrix sgn(B) in {-1, 1}^(L × D) is kept as L rows of D / 8 bytes, the first number in the lowest
bit, 1 for +1. A question u scores it by cos(u, v), v = Σ α_i b_i, α_i ∝ exp(mᵀ tanh(W1 b_i + W2 u)).

The paper's bits save memory and no time; these save both. Answers are unpacked some hundred tokens at a time,
by a table of bytes, so memory does not grow with their number, and the unpacked numbers never leave the
cache. Numbers of one byte suffice on both sides of W1 b: W1 is rounded to 7 bits a row, and the error of the
logit, Σ m_j (tanh x_j - tanh x'_j), is to first order linear in b, with the mean slope of each tanh over
random b: one more column of W1. The remaining error is known beforehand. If it is too large for a question,
W1 has 14 bits, in two products. α always has 14 bits. Sums of such numbers are whole and exact, in any order
and any precision of at least 24 bits, so a score depends on nothing but question and answer. tanh x = 2 σ(2x)
- 1: the logistic function is several times quicker, and a constant does not change α.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from answermill.schemas.arrays import Bytes, Floats, Ints

BLOCK_TOKENS = {"cpu": 1_024, "cuda": 4_096}
"""Tokens unpacked together, unless one answer has more."""
TOLERANCE = 2e-5
"""Largest accepted standard deviation of a score's error by W1 in 7 bits: a fifth of the error that a score
may have."""
_LEVELS = 127  # of a byte: -127 to 127
_FINE_LEVELS = _LEVELS * _LEVELS + _LEVELS // 2  # of two bytes, the first counting 127 times
_PAD = 16  # columns of a product come in multiples of this


@dataclass(frozen=True)
class Codes:
    """Answers end to end."""

    bits: Bytes  # [tokens, D / 8]
    lengths: Ints  # [answers]: tokens


class Sizes(NamedTuple):
    """Memory of some answers in bytes (Table 6, "Memory Cost")."""

    floats: int
    """Matrices of float32."""
    bits: int
    pooled: int
    """A vector of float32 each."""
    ids: int
    """Token ids of four bytes, to be encoded again for each question."""


def sizes(answers: int, length: int, width: int) -> Sizes:
    """Memory of answers of `length` tokens with `width` = D."""
    tokens = answers * length
    return Sizes(4 * tokens * width, tokens * (width // 8), 4 * answers * width, 4 * tokens)


def pack(values: Tensor) -> Bytes:
    """Pack the signs of [tokens, D] into [tokens, D / 8]; 0 counts as +1. Raises ValueError if D is no
    multiple of 8.

    >>> pack(torch.tensor([[0.5, -1.0, 2.0, -1.0, -1.0, -1.0, -1.0, 0.0]])).tolist()  # the bits 0, 2 and 7
    [[133]]
    """
    if values.shape[1] % 8:
        raise ValueError(
            f"{values.shape[1]} numbers a token; bits are kept in whole bytes, so give a multiple of 8"
        )
    return np.packbits((values >= 0).cpu().numpy(), axis=1, bitorder="little")


def unpack(bits: Bytes) -> Tensor:
    """Unpack [tokens, D / 8] into ±1 [tokens, D] in float32.

    >>> unpack(np.array([[133]], np.uint8)).tolist()
    [[1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0]]
    """
    return torch.from_numpy(np.unpackbits(bits, axis=1, bitorder="little").astype(np.float32) * 2 - 1)


class Attention:
    """Attention of a model, W1, W2 [M, D] and m [M], ready to score packed answers."""

    def __init__(self, w1: Tensor, w2: Tensor, m: Tensor, device: torch.device | str = "cpu") -> None:
        """Raises ValueError if shapes do not fit one another, or D is no multiple of 8."""
        hidden, width = w1.shape
        if w2.shape != w1.shape or m.shape != (hidden,) or width % 8:
            raise ValueError(
                f"W1 {tuple(w1.shape)}, W2 {tuple(w2.shape)} and m {tuple(m.shape)} are no attention over "
                "bits"
            )
        self.device = torch.device(device)
        self._w1, self._w2, self._m = (x.detach().double().cpu().numpy() for x in (w1, w2, m))
        self._coarse = _Rounded.of(self._w1, _LEVELS)
        self._fine = _Rounded.of(self._w1, _FINE_LEVELS)
        self._double_m = (2 * m.detach().float()).to(self.device)

    def scores(self, question: Tensor, codes: Codes) -> Floats:
        """cos(u, v) [answers] of u [D] and each answer's v; 0 for an answer without tokens.

        Within 1e-4 of the scores by unpacked matrices in float32, if no row of W1 has a norm above 10 (those
        of the model that ships have less than 1). Raises ValueError if the widths differ.
        """
        if codes.bits.shape[1] * 8 != self._w1.shape[1]:
            raise ValueError(
                f"answers of {codes.bits.shape[1] * 8} bits a token for a model of {self._w1.shape[1]}"
            )

        u = question.detach().double().cpu().numpy()
        columns = self._question_columns(u)
        scores = np.zeros(len(codes.lengths))

        for answers, tokens in _blocks(codes.lengths, BLOCK_TOKENS[self.device.type]):
            lengths = codes.lengths[answers]
            signs = _signs(codes.bits[tokens], self.device)
            v = _composed(self._logits(signs, columns), signs, lengths)
            norms = np.linalg.norm(v, axis=1) * np.linalg.norm(u)
            scores[answers] = np.divide(v @ u, norms, out=np.zeros(len(v)), where=norms > 0)

        return scores

    def bits_of(self, question: Tensor) -> int:
        """Number of bits of W1 for this question: 7 or 14."""
        columns = self._question_columns(question.detach().double().cpu().numpy())
        return 14 if columns.correction is None else 7

    def _question_columns(self, u: Floats) -> _QuestionColumns:
        """Terms that depend on the question alone. The slopes of tanh are over b of random signs, for which
        W1 b is normal."""
        bias, deviation = self._w2 @ u, np.linalg.norm(self._w1, axis=1)
        nodes, weights = _normal(0.5 / max(1.0, deviation.max()))  # several where a tanh is steep
        slopes = 1 - np.tanh(bias[:, None] + deviation[:, None] * nodes) ** 2  # [M, nodes]
        mean = slopes @ weights
        residue = self._w1 - self._coarse.whole * self._coarse.step[:, None]
        spread = self._m * np.sqrt(np.maximum(slopes**2 @ weights - mean**2, 0))
        error = np.sqrt((spread**2 * (residue**2).sum(1)).sum() / len(u))
        if error > TOLERANCE:
            high, low = _split(self._fine.whole)
            return _QuestionColumns(self._columns(high, low), self._fine.step, bias, None, self.device)

        column = _Rounded.of(((self._m * mean) @ residue)[None], _LEVELS)
        return _QuestionColumns(
            self._columns(self._coarse.whole, column.whole),
            self._coarse.step,
            bias,
            column.step[0],
            self.device,
        )

    def _columns(self, *rows: Floats) -> Tensor:
        """[D, n and columns of 0 up to a multiple of _PAD], from rows [n, D] of whole numbers."""
        matrix = np.concatenate(rows)
        matrix = np.pad(matrix, ((0, -len(matrix) % _PAD), (0, 0)))
        return torch.from_numpy(np.ascontiguousarray(matrix.T.astype(np.int8))).to(self.device)

    def _logits(self, signs: Tensor, columns: _QuestionColumns) -> Floats:
        """mᵀ tanh(W1 b + W2 u) [tokens], up to a constant that all tokens share."""
        hidden = len(self._double_m)
        product = exact_product(signs, columns.columns)
        x = product[:, :hidden]
        if columns.correction is None:
            x = torch.add(product[:, hidden : 2 * hidden], x, alpha=_LEVELS)
        x = torch.addcmul(columns.bias, x.float(), columns.step)
        # A product with m would be quicker, but a row's sum would depend on the number of rows.
        logits: Floats = x.sigmoid_().mul_(self._double_m).sum(1).double().cpu().numpy()
        if columns.correction is not None:
            logits += product[:, hidden].double().cpu().numpy() * columns.correction
        return logits


class _Rounded(NamedTuple):
    """A matrix [n, D] = whole numbers × a step for each row."""

    whole: Floats
    step: Floats

    @classmethod
    def of(cls, matrix: Floats, levels: int) -> _Rounded:
        """Round a matrix to whole numbers from -levels to levels."""
        most = np.abs(matrix).max(1)
        step = np.where(most > 0, most, 1.0) / levels
        return cls(np.rint(matrix / step[:, None]), step)


class _QuestionColumns:
    """Columns by which answers are multiplied for a question."""

    def __init__(
        self, columns: Tensor, step: Floats, bias: Floats, correction: float | None, device: torch.device
    ) -> None:
        """`columns`: [D, n] int8; `step`: [M], of W1's whole numbers; `bias`: W2 u [M]; `correction`: step of
        column M, if that is the correction."""
        self.columns, self.correction = columns, correction
        self.step, self.bias = (torch.from_numpy(2 * x).float().to(device) for x in (step, bias))


def _normal(step: float) -> tuple[Floats, Floats]:
    """Nodes, `step` apart, and weights of the mean of a function of a standard normal number.

    >>> nodes, weights = _normal(0.5)
    >>> round(float(nodes**2 @ weights), 6)
    1.0
    """
    most = int(np.ceil(6 / step))
    nodes: Floats = step * np.arange(-most, most + 1, dtype=np.float64)
    weights: Floats = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


def _composed(logits: Floats, signs: Tensor, lengths: Ints) -> Floats:
    """Σ α_i b_i of each answer [answers, D], up to a factor, as whole numbers."""
    sums = np.zeros((len(lengths), signs.shape[1]))
    filled = np.flatnonzero(lengths)
    if len(filled):
        lengths = lengths[filled]
        answer = np.repeat(np.arange(len(filled)), lengths)
        most = np.maximum.reduceat(logits, np.cumsum(lengths) - lengths)
        high, low = _split(np.rint(np.exp(logits - most[answer]) * _FINE_LEVELS))
        rows = np.zeros((2, len(filled), len(logits)), np.int8)
        rows[:, answer, np.arange(len(logits))] = high, low
        product = exact_product(torch.from_numpy(rows.reshape(-1, len(logits))).to(signs.device), signs)
        first, second = product.double().cpu().numpy().reshape(2, len(filled), -1)
        sums[filled] = _LEVELS * first + second

    return sums


def _split(whole: Floats) -> tuple[Floats, Floats]:
    """(high, low), of a byte each, with whole = 127 high + low.

    >>> [part.tolist() for part in _split(np.array([3.0, 130.0, 250.0]))]
    [[0.0, 1.0, 2.0], [3.0, 3.0, -4.0]]
    """
    high = np.rint(whole / _LEVELS)
    return high, whole - _LEVELS * high


def exact_product(a: Tensor, b: Tensor) -> Tensor:
    """Product of two int8 matrices: in int32 if the processor multiplies bytes, else in float32, which holds
    the same numbers below 2²⁴: for up to 1,024 ones on one side (TF32 holds them as well)."""
    if a.device.type == "cpu" and _multiplies_bytes():
        return torch._int_mm(a, b)
    return a.float() @ b.float()


@cache
def _multiplies_bytes() -> bool:
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_vnni") or can.get("amx_int8"))


@cache
def _table(device: torch.device) -> Tensor:
    """[256]: the eight signs of each byte, as one number of 64 bits."""
    signs = (
        np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.int8) * 2
        - 1
    )
    return torch.from_numpy(signs.view(np.int64).ravel()).to(device)


def _signs(bits: Bytes, device: torch.device) -> Tensor:
    """Unpack [tokens, D / 8] into ±1 [tokens, D] in int8."""
    numbers = torch.from_numpy(bits.astype(np.int32).ravel()).to(device)
    return _table(device).index_select(0, numbers).view(torch.int8).view(len(bits), 8 * bits.shape[1])


def _blocks(lengths: Ints, tokens: int) -> Iterator[tuple[slice, slice]]:
    """(answers, their tokens) of runs of at most `tokens` tokens, or of one answer that has more.

    >>> [(answers.stop, held.stop) for answers, held in _blocks(np.array([2, 3, 9, 1]), 5)]
    [(2, 5), (3, 14), (4, 15)]
    """
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + tokens, side="right")))
        yield slice(first, last), slice(done, int(ends[last - 1]))
        first = last
