"""Global optimisation (Cosinet §4.2): scores of a question's candidates from their representations.

Common parts of Cosinet and Compare-Aggregate: the six forms that Table 4 compares, the batch, and the loss. A
recurrent layer reads the candidates of one question in their original order; a single layer gives the scores;
list-wise, their softmax is compared with the normalised gold labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

from answermill.ranking.reranker import order_by
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import RankedList

Form = Literal["pointwise", "list", "rnn", "birnn", "lstm", "bilstm"]
FORMS: tuple[Form, ...] = get_args(Form)
"""Rows of Table 4: pointwise (BCE), list-wise (KL), and list-wise with a recurrent layer over the
candidates."""

Text = Sequence[int]
"""A text as rows of the embedding table; a row past its end is an unknown word."""
NumberedList = tuple[Text, Sequence[Text]]
"""A question and its candidates in their original order."""

BLOCK_WORDS = 16_384  # padding included
GROUP_PAIRS = 1_024


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole lists, one after the other, candidates in their original order."""

    questions: Tensor  # [lists, words] rows, 0 = padding
    candidates: Tensor  # [pairs, words] rows, 0 = padding
    sizes: tuple[int, ...]  # candidates per list, none of them 0
    labels: Tensor  # [pairs] 1 = answer, 0 = not
    features: Tensor | None = None  # [pairs, features], of a model that reads some

    def to(self, device: torch.device | str) -> Batch:
        features = None if self.features is None else self.features.to(device)
        return Batch(
            self.questions.to(device),
            self.candidates.to(device),
            self.sizes,
            self.labels.to(device),
            features,
        )

    @property
    def paired(self) -> Tensor:
        """[pairs, words]: question of each candidate."""
        return self.questions.repeat_interleave(torch.tensor(self.sizes, device=self.questions.device), 0)


def collate(
    lists: Sequence[tuple[Text, Sequence[Text], Sequence[float]]], features: Sequence[Floats] | None = None
) -> Batch:
    """One batch from lists of (question, its candidates, their labels). `features`: [candidates, features] of
    each list.

    Raises ValueError if a list has no candidate.
    """
    for question, candidates, labels in lists:
        if not candidates or len(candidates) != len(labels):
            raise ValueError(
                f"question {list(question)}: {len(candidates)} candidates and {len(labels)} labels"
            )
    return Batch(
        questions=_padded([question for question, _, _ in lists]),
        candidates=_padded([candidate for _, candidates, _ in lists for candidate in candidates]),
        sizes=tuple(len(candidates) for _, candidates, _ in lists),
        labels=torch.tensor([float(label) for _, _, labels in lists for label in labels]),
        features=None if features is None else torch.from_numpy(np.concatenate(features)).float(),
    )


def _padded(texts: Sequence[Text]) -> Tensor:
    """[texts, longest]; at least one column, so that a text without words has a place."""
    width = max(1, *map(len, texts))
    padded = chain.from_iterable(chain(text, [0] * (width - len(text))) for text in texts)
    return torch.tensor(list(padded), dtype=torch.int64).view(len(texts), width)


def embed(vectors: Tensor, rows: Tensor) -> Tensor:
    """Vectors [texts, words, d] of rows [texts, words]; zeros for padding and for rows past the table, the
    unknown words."""
    return vectors[torch.where(rows < len(vectors), rows, 0)]


def real(rows: Tensor) -> Tensor:
    """[texts, words]: false for padding; true at the first place of a text even if it has no word."""
    return F.pad(rows[:, 1:] > 0, (1, 0), value=True)


class Head(nn.Module):
    """Head that scores pair representations. The recurrent layer is `hidden` wide, half of it in each
    direction if it has two.

    Table 4's parameters decide the widths: 300 for Cosinet, half of its input of 600, and 600 for
    Compare-Aggregate, a fifth of its 3,000. §5.2's "same hidden size as the input" would give neither.
    """

    def __init__(self, form: Form, inputs: int, hidden: int) -> None:
        super().__init__()
        if form not in FORMS:
            raise ValueError(f"unknown form {form!r}; known: {', '.join(FORMS)}")
        self.recurrent: nn.RNN | nn.LSTM | None = None
        if form not in ("pointwise", "list"):
            layer = nn.LSTM if form.endswith("lstm") else nn.RNN
            both = form.startswith("bi")
            self.recurrent = layer(
                inputs, hidden // 2 if both else hidden, batch_first=True, bidirectional=both
            )
        self.linear = nn.Linear(hidden if self.recurrent else inputs, 1)

    def forward(self, pairs: Tensor, sizes: Sequence[int]) -> Tensor:
        """Scores [pairs] of lists of these sizes, in original order, from [pairs, inputs]; never under
        autocast."""
        with torch.autocast(pairs.device.type, enabled=False):
            return self._forward(pairs, sizes)

    def _forward(self, pairs: Tensor, sizes: Sequence[int]) -> Tensor:
        if self.recurrent is not None:
            lists = pack_sequence(_split(pairs, sizes), enforce_sorted=False)
            # [lists, longest, hidden].
            states, _ = pad_packed_sequence(self.recurrent(lists)[0], batch_first=True)
            pairs = states[_mask(sizes, states.device)]  # [pairs, hidden]
        scores: Tensor = self.linear(pairs)  # [pairs, 1]
        return scores.squeeze(1)


def loss(form: Form, scores: Tensor, batch: Batch) -> Tensor:
    """Loss of a batch. Pointwise: binary cross-entropy, mean over pairs. List-wise: KL(gold ‖ softmax of
    scores), mean over lists.

    The gold labels of a list are divided by their sum; a list without an answer has no gold distribution and
    is left out, as the paper leaves out its question (§5.1).
    """
    if form == "pointwise":
        return F.binary_cross_entropy_with_logits(scores, batch.labels)
    real = _mask(batch.sizes, scores.device)
    gold = pad_sequence(_split(batch.labels, batch.sizes), batch_first=True)  # [lists, longest]
    padded = pad_sequence(_split(scores, batch.sizes), batch_first=True).masked_fill(~real, -math.inf)
    predicted = padded.log_softmax(1).masked_fill(~real, 0)
    answers = gold.sum(1, keepdim=True)
    divergence = F.kl_div(predicted, gold / answers.clamp_min(1e-9), reduction="none").sum(1)  # [lists]
    answered = answers.squeeze(1) > 0
    return divergence[answered].sum() / answered.sum().clamp_min(1)


@torch.inference_mode()
def score(
    pairs: Callable[[Sequence[NumberedList]], Tensor],
    head: Head,
    lists: Sequence[NumberedList],
    features: Sequence[Floats] | None = None,
) -> list[Floats]:
    """Score per candidate of each list. `pairs` reads blocks, which cut lists anywhere; the head reads whole
    lists, in float64.

    `features` [candidates, features] of each list stand beside its pairs, if the head reads some.
    """
    scored = [np.empty(0) for _ in lists]
    for group in _groups(lists):
        sizes = [len(lists[n][1]) for n in group]
        encoded = torch.cat([pairs(block).double() for block in _blocks([lists[n] for n in group])])
        if features is not None:
            beside = torch.from_numpy(np.concatenate([features[n] for n in group]))
            encoded = torch.cat([encoded, beside.to(encoded.device)], 1)
        for n, scores in zip(group, _split(head(encoded, sizes), sizes), strict=True):
            scored[n] = scores.cpu().numpy()
    return scored


def _groups(lists: Sequence[NumberedList]) -> Iterator[list[int]]:
    """Groups of numbers of lists that have candidates, whose pairs are in memory together."""
    group: list[int] = []
    pairs = 0
    for n, (_, candidates) in enumerate(lists):
        if group and pairs + len(candidates) > GROUP_PAIRS:
            yield group
            group, pairs = [], 0
        if candidates:
            group.append(n)
            pairs += len(candidates)
    if group:
        yield group


def _blocks(lists: Sequence[NumberedList]) -> Iterator[list[NumberedList]]:
    block: list[NumberedList] = []
    pairs = longest = 0
    for question, candidates in lists:
        first = 0
        for n, candidate in enumerate(candidates):
            longest = max(longest, len(question), len(candidate))
            if pairs and (pairs + 1) * longest > BLOCK_WORDS:
                yield [*block, (question, candidates[first:n])] if n > first else block
                block, first, pairs, longest = [], n, 0, max(len(question), len(candidate))
            pairs += 1
        block.append((question, candidates[first:]))
    yield block


def _split(pairs: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Split pairs into one tensor per list."""
    return list(torch.split(pairs, list(sizes)))


def _mask(sizes: Sequence[int], device: torch.device) -> Tensor:
    """[lists, longest], true where a list has a candidate."""
    return torch.arange(max(sizes), device=device) < torch.tensor(sizes, device=device)[:, None]


def rerank(
    lists: Sequence[RankedList],
    lexicon: Lexicon,
    scores: Callable[..., list[Floats]],
    stage: str,
    features: Callable[[Sequence[RankedList]], list[Floats]] | None = None,
) -> list[RankedList]:
    """Order the lists by `scores`, which reads their candidates in original order, whatever the incoming
    order.

    `scores` takes the numbered lists, and the `features` of each, if there are some.
    """
    original = [sorted(range(len(r.candidates)), key=lambda n: r.candidates[n].position) for r in lists]
    ordered = [
        RankedList(r.question, tuple(r.candidates[n] for n in order))
        for r, order in zip(lists, original, strict=True)
    ]
    texts = [[r.question.text, *(candidate.text for candidate in r.candidates)] for r in ordered]
    rows = iter(lexicon.rows([text for list_texts in texts for text in list_texts]))
    numbered = [
        (question, candidates)
        for question, *candidates in (list(islice(rows, len(list_texts))) for list_texts in texts)
    ]
    scored = scores(numbered) if features is None else scores(numbered, features(ordered))

    reranked = []
    for ranked, order, values in zip(lists, original, scored, strict=True):
        incoming = np.empty(len(order))
        incoming[order] = values
        reranked.append(order_by(ranked, incoming, stage))

    return reranked
