"""HAS (Xu & Li, AAAI 2020): answers are encoded once, as matrices of bits, and compared with questions later.

`HashingModel` is the paper's section "Hashing based Answer Selection": U_q = BERT(q) and V_a = BERT(a), each
text on its own; the hashing layer B_a = tanh(β V_a) (Eq. 1); u_q = max-pooling(U_q); v_a = Σ α_i b_i, α =
softmax mᵀ tanh(W1 b_i + W2 u_q); and s(q, a) = cos(u_q, v_a). Its variants are those of Table 5:

    pooling     v_a = max-pooling(V_a): BERT-pooling
    attention   b_i are the columns of V_a: BERT-attention
    has         b_i are the columns of B_a and, when it serves, of B̄_a = sgn(B_a)

Our choices. [CLS] and [SEP] take part in pooling, attention and stored matrices, as columns of BERT's output;
there is no padding. An answer is the sentence; or, by the checkpoint's `context`, one text of it with its
title and its neighbours (`Reading.one_text`). L is the tokenizer's limit, for questions and answers, special
tokens included; tokens beyond it are cut from the end of a text, and counted. sgn(0) = +1. Dropout is the
encoder's alone. W1, W2 and m have no bias. At inference everything after the encoder is computed in float64,
and `has` scores from bits (`bits.py`), read from a store or encoded: a score does not depend on the rest of
the batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.checkpoint import config_of
from answermill.ranking.context import Reading
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import (
    FULL,
    StoredForm,
    load_transformer,
    save_transformer,
)
from answermill.schemas.arrays import Ints

Variant = Literal["pooling", "attention", "has"]


NAME = "hashing"


SENTENCE = Reading()
"""Default reading: the sentence alone."""


PAIR_TOKENS = 1 << 13  # tokens of the pairs composed together: 25 MB of 384 numbers in float64


class HashingModel(nn.Module):
    """An encoder and, unless it pools, the attention's W1 [M, D], W2 [M, D] and m [1, M]."""

    def __init__(
        self,
        encoder: LayeredEncoder,
        variant: Variant,
        attention: int = 128,
        beta: float = 5.0,
        reading: Reading = SENTENCE,
    ) -> None:
        """`attention`: M; `reading`: parts of an answer's text. Raises ValueError on an unknown variant,
        attention < 1 or beta < 1."""
        super().__init__()
        if variant not in ("pooling", "attention", "has"):
            raise ValueError(f"unknown variant {variant!r}; known: pooling, attention, has")
        if attention < 1 or beta < 1:
            raise ValueError(f"attention = {attention}, beta = {beta}; both must be at least 1")

        self.encoder, self.variant, self.attention, self.beta = encoder, variant, attention, beta
        self.reading = reading
        self.precision = torch.float32
        """Precision of everything after the encoder."""
        width = encoder.shape.width
        attends = variant != "pooling"
        self.w1 = nn.Linear(width, attention, bias=False) if attends else None
        self.w2 = nn.Linear(width, attention, bias=False) if attends else None
        self.m = nn.Linear(attention, 1, bias=False) if attends else None

    def body(self) -> LayeredEncoder:
        """The whole transformer, for another model to begin with."""
        return self.encoder

    def take_attention(self, other: HashingModel) -> None:
        """Take over another model's W1, W2 and m, if both have them. Raises ValueError if its M is
        different."""
        for own, source in ((self.w1, other.w1), (self.w2, other.w2), (self.m, other.m)):
            if own is not None and source is not None:
                if self.attention != other.attention:
                    raise ValueError(
                        f"its attention has M = {other.attention}, not {self.attention}; give attention = "
                        "its M"
                    )
                own.load_state_dict(source.state_dict())

    def question(self, tokens: Packed) -> Tensor:
        """u_q [texts, D]: the maximum of each dimension over the text's tokens."""
        return _segments(self.encoded(tokens), "max", tokens.starts)

    def answer(self, tokens: Packed) -> Tensor:
        """B_a [tokens, D] in (-1, 1), the texts end to end; without hashing V_a."""
        encoded = self.encoded(tokens)
        return (self.beta * encoded).tanh() if self.variant == "has" else encoded

    def kept(self, tokens: Packed) -> Tensor:
        """Matrices of answers for serving and storing [tokens, D]: B̄_a in {-1, +1}; without hashing V_a."""
        encoded = self.encoded(tokens)  # tanh keeps the sign
        return sign(encoded) if self.variant == "has" else encoded

    def compose(self, answer: Tensor, starts: Tensor, question: Tensor) -> Tensor:
        """v_a [pairs, D]. Pair p has the columns answer[starts[p] : starts[p + 1]], starts [pairs + 1], and
        question[p]."""
        with torch.autocast(answer.device.type, enabled=False):
            if self.w1 is None or self.w2 is None:
                return _segments(answer, "max", starts)
            return self._attend(answer, self.w1(answer), starts, self.w2(question))

    def scores(
        self, question: Tensor, answer: Tensor, starts: Tensor, question_of: Ints, answer_of: Ints
    ) -> Tensor:
        """s [pairs]. Pair p has question[question_of[p]] and answer number a = answer_of[p], whose columns
        are answer[starts[a] : starts[a + 1]]. W1 b is computed once per column and W2 u once per question,
        for any number of pairs; memory does not grow with the pairs."""
        with torch.autocast(answer.device.type, enabled=False):
            return self._scores(question, answer, starts, question_of, answer_of)

    def _scores(
        self, question: Tensor, answer: Tensor, starts: Tensor, question_of: Ints, answer_of: Ints
    ) -> Tensor:
        if self.w1 is None or self.w2 is None:
            return F.cosine_similarity(question[question_of], _segments(answer, "max", starts)[answer_of])

        keys, queries = self.w1(answer), self.w2(question)  # [tokens, M], [questions, M]
        lengths = starts.diff().cpu().numpy().astype(np.int64)[answer_of]
        parts = []

        for part in _parts(lengths, PAIR_TOKENS):
            sizes = torch.from_numpy(lengths[part]).to(answer.device)
            ends = F.pad(sizes.cumsum(0), (1, 0))
            rows = torch.repeat_interleave(starts[answer_of[part]].long() - ends[:-1], sizes) + torch.arange(
                int(ends[-1]), device=answer.device
            )
            vectors = self._attend(answer[rows], keys[rows], ends, queries[question_of[part]])
            parts.append(F.cosine_similarity(question[question_of[part]], vectors))

        return torch.cat(parts) if parts else question.new_zeros(0)

    def _attend(self, answer: Tensor, keys: Tensor, starts: Tensor, queries: Tensor) -> Tensor:
        """Σ α_i b_i [pairs, D] from b [tokens, D], W1 b [tokens, M] and W2 u [pairs, M]."""
        assert self.m is not None
        sizes = starts.diff().long()
        logits = self.m((keys + queries.repeat_interleave(sizes, 0)).tanh())  # [tokens, 1]
        weights = (logits - _segments(logits.detach(), "max", starts).repeat_interleave(sizes, 0)).exp()
        return _segments(weights * answer, "sum", starts) / _segments(weights, "sum", starts)

    def encoded(self, tokens: Packed) -> Tensor:
        """BERT's output V_a, or U_q, [tokens, D], the texts end to end, in `precision`."""
        hidden = self.encoder.run(self.encoder.embed(tokens), tokens, 0, self.encoder.shape.layers)
        return self.encoder.normalised(hidden).to(self.precision)

    def for_inference(
        self, device: torch.device | str, precision: torch.dtype = torch.float64
    ) -> HashingModel:
        """Copy for scoring: the encoder in the device's fast precision, the rest in `precision`."""
        scorer = copy.copy(self)
        scorer._modules = dict(self._modules)
        scorer.encoder = self.encoder.for_inference(device)
        scorer.precision = precision
        for name, module in self._modules.items():
            if name != "encoder":
                scorer._modules[name] = copy.deepcopy(module).to(device, precision)  # type: ignore[union-attr]
        return scorer.requires_grad_(False).eval()


def sign(values: Tensor) -> Tensor:
    """sgn, with sgn(0) = +1."""
    return torch.where(values >= 0, 1.0, -1.0).to(values.dtype)


def _segments(values: Tensor, reduce: Literal["max", "sum"], starts: Tensor) -> Tensor:
    """Reduce [tokens, …] to [texts, …], over each text's own tokens."""
    return torch.segment_reduce(values, reduce, lengths=starts.diff().long(), axis=0, unsafe=True)


def _parts(lengths: Ints, most: int) -> list[slice]:
    """Runs of neighbouring pairs of at most `most` tokens together, or one that has more."""
    ends = np.cumsum(lengths)
    parts, first = [], 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] - lengths[first] + most, side="right")))
        parts.append(slice(first, last))
        first = last
    return parts


def save(
    folder: Path,
    model: HashingModel,
    tokeniser: Tokeniser,
    stored: StoredForm = FULL,
) -> None:
    """Write the model folder; L is the tokenizer's limit. See `save_transformer`."""
    details = {
        "variant": model.variant,
        "attention": model.attention,
        "beta": model.beta,
        **model.reading.details(SENTENCE),
    }
    save_transformer(folder, NAME, details, model, tokeniser, stored=stored)


def load(folder: Path, source: Callable[[str], Path] = Path) -> tuple[HashingModel, Tokeniser]:
    """Model and tokeniser that `save` wrote. Raises ValueError if the folder is incomplete, broken, or of
    another format or model."""
    return load_transformer(folder, NAME, _build, source)


def variant_of(folder: Path) -> Variant:
    """Variant of a checkpoint. Raises ValueError if the folder is no checkpoint of this model."""
    with config_of(folder, NAME) as config:
        variant: Variant = config["variant"]
    return variant


def _build(config: Mapping[str, Any], encoder: LayeredEncoder) -> HashingModel:
    reading = Reading.of(config, SENTENCE)
    return HashingModel(encoder, config["variant"], config["attention"], config["beta"], reading)
