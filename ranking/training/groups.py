"""Groups of pairs: a question's right candidates and wrong ones drawn for an epoch; and losses over a group.

`softmax_loss` is the localized contrastive estimation of Gao, Dai & Callan (ECIR 2021): a right candidate
against the wrong ones that were retrieved beside it. `margin_mse` is the distillation of Hofstätter et al.
(2020): the student learns by how much a teacher prefers a right candidate to a wrong one, not the teacher's
scale. Our choice: a question's right candidates share the wrong ones that were drawn, and none is compared
with another right one.

Without groups each pair is one by itself, so both cases make steps in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from answermill.schemas.arrays import Ints

POOL = 32  # steps whose groups are sorted by length together, so that texts of one length meet


@dataclass(frozen=True, slots=True)
class Group:
    """Pairs that are in one step together, by their numbers."""

    always: Ints
    drawn_from: Ints
    """Pairs of which each epoch draws some."""
    draws: int

    def draw(self, random: np.random.Generator) -> Ints:
        """The group's pairs of an epoch."""
        if self.draws >= len(self.drawn_from):
            return np.concatenate([self.always, self.drawn_from])
        return np.concatenate([self.always, random.choice(self.drawn_from, self.draws, replace=False)])

    def tokens(self, lengths: Ints) -> tuple[int, float, int]:
        """Least, mean and most tokens of a draw. `lengths`: tokens of every pair."""
        always, ascending = int(lengths[self.always].sum()), np.sort(lengths[self.drawn_from])
        draws = min(self.draws, len(ascending))
        mean = draws * float(ascending.mean()) if draws else 0.0
        return (
            always + int(ascending[:draws].sum()),
            always + mean,
            always + int(ascending[len(ascending) - draws :].sum()),
        )


class Groups:
    """All groups of a training, and the steps of an epoch, each of whole groups and much the same number of
    tokens."""

    def __init__(self, groups: Sequence[Group] | None, lengths: Ints, tokens: int) -> None:
        """`lengths`: tokens of every pair. `groups`: None for each pair by itself. Raises ValueError if a
        group may have more than half of a step's `tokens`."""
        self._groups, self._lengths = groups, lengths
        least = mean = most = lengths
        if groups is not None:
            least, mean, most = np.array([group.tokens(lengths) for group in groups]).T
        self.longest = int(most.max())

        check_room(tokens, self.longest, "pairs that stay together", "a lower limit, or fewer negatives")

        # No step may be empty, whatever is drawn. So the shortest epoch must have the longest group's tokens
        # for each step.
        self.tokens = float(mean.sum())
        """Tokens of a mean epoch."""
        self.steps: int = max(1, min(-(-round(mean.sum()) // tokens), int(least.sum()) // self.longest))

    def epoch(self, random: np.random.Generator) -> list[tuple[Ints, Ints]]:
        """Pairs of each step, the shortest first, and the group of each pair, counted from 0 in the step."""
        if self._groups is None:
            order = random.permutation(len(self._lengths))
            return [(pairs, np.arange(len(pairs))) for pairs in cut(self._lengths, order, self.steps, random)]
        drawn = [group.draw(random) for group in self._groups]
        sizes = np.array([self._lengths[pairs].sum() for pairs in drawn])
        steps = cut(sizes, random.permutation(len(drawn)), self.steps, random)
        return [self._in_step([drawn[n] for n in numbers]) for numbers in steps]

    def _in_step(self, drawn: Sequence[Ints]) -> tuple[Ints, Ints]:
        pairs = np.concatenate(drawn)
        by_length = np.argsort(self._lengths[pairs], kind="stable")
        return pairs[by_length], np.repeat(np.arange(len(drawn)), [len(group) for group in drawn])[by_length]


def steps_of(lengths: Ints, tokens: int, texts: str) -> int:
    """Steps of an epoch, each of `tokens` at the mean. `lengths`: tokens of each of the `texts`, as an error
    names them. Raises ValueError if one has more than half of a step's tokens.

    >>> steps_of(np.array([30, 40, 50]), 100, "passages")
    2
    """
    check_room(tokens, int(lengths.max()), texts, "or a lower limit")
    return -(-int(lengths.sum()) // tokens)


def check_room(tokens: int, longest: int, texts: str, instead: str) -> None:
    """Raise ValueError if the longest of the texts has more than half of a step's tokens."""
    if tokens < 2 * longest:
        raise ValueError(
            f"steps of {tokens} tokens for {texts} of up to {longest}; set tokens to at least {2 * longest}, "
            f"{instead}"
        )


def cut(lengths: Ints, order: Ints, steps: int, random: np.random.Generator) -> list[Ints]:
    """Texts in `order` as `steps` batches of much the same number of tokens: each has fewer than the mean and
    its longest text together. Within a pool of batches the texts are sorted by length.

    >>> lengths = np.array([2, 3, 2, 3])
    >>> [batch.tolist() for batch in cut(lengths, np.arange(4), 2, np.random.default_rng(0))]
    [[0, 2], [1, 3]]
    """
    # The pool of batches that each text is in.
    ends = np.cumsum(lengths[order])
    per_batch = ends[-1] / steps
    pool = np.minimum(ends // (POOL * per_batch), (steps - 1) // POOL)

    # Within a pool texts of like length meet.
    by_length = order[np.lexsort((lengths[order], pool))]
    edges = np.searchsorted(np.cumsum(lengths[by_length]), per_batch * np.arange(1, steps), side="right")
    batches = np.split(by_length, edges)
    return [batches[n] for n in random.permutation(len(batches))]


def softmax_loss(logits: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    """-log of a right candidate's share of the softmax over it and its group's wrong ones, mean over the
    right ones.

    All are [texts]: logits, labels, and the number of each text's group. Every group must have a wrong one.

    >>> labels, groups = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0, 0, 0])
    >>> round(softmax_loss(torch.tensor([2.0, 1.0, 0.0]), labels, groups).item(), 4)  # -log(e² / (e² + e + 1))
    0.4076
    """
    right, against = _against(labels, groups)
    wrong = logits.expand(len(right), -1).masked_fill(~against, -torch.inf).logsumexp(1)  # [right]
    return F.softplus(wrong - logits[right]).mean()


def margin_mse(logits: Tensor, teacher: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
    """((z⁺ - z⁻) - (t⁺ - t⁻))², mean over all pairs of a right and a wrong candidate of one group; all are
    [texts].

    >>> logits, teacher = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([5.0, 1.0, 1.0])
    >>> margin_mse(logits, teacher, torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0, 0, 0])).item()  # (3² + 2²) / 2
    6.5
    """
    right, against = _against(labels, groups)
    excess = logits - teacher
    difference = excess[right][:, None] - excess
    return difference[against].square().mean()


def _against(labels: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """The right candidates' numbers [right], and a mask of the wrong texts of the same group [right,
    texts]."""
    right = labels.nonzero().squeeze(1)
    return right, (groups[right][:, None] == groups) & (labels == 0)
