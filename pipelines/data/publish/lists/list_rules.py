"""Parts of training lists of sentences: the rules for them, and the sentences that a list is drawn from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from answermill.pipelines.data.publish.question_splits import SplitRules, adds_up
from answermill.pipelines.errors import USAGE, JobError

Kind = Literal["passage", "document", "retrieved", "random"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Origins of a wrong sentence: a passage with a right one; the rest of that document; other documents, among
the best retrieved; a random passage."""
FILLERS: tuple[Kind, ...] = ("retrieved", "document", "passage", "random")
"""Kinds that make up for those that have too few sentences, in this order."""


@dataclass(frozen=True)
class ListRules(SplitRules):
    """Rules for the wrong sentences that stand in a list beside the right ones, and for the splits."""

    negatives: int = 20
    """Wrong sentences of a question."""
    negative_shares: tuple[float, ...] = (0.2, 0.25, 0.45, 0.1)
    """Shares of these, in the order of KINDS."""
    depth: int = 50
    """Number of best sentences of other documents from which those of the kind 'retrieved' are drawn."""
    by: str | None = None
    """Stage whose scores rank these sentences; None = the rank of their passage."""

    def __post_init__(self) -> None:
        for name in ("negatives", "depth"):
            if (value := getattr(self, name)) < 1:
                raise JobError(f"--{name} {value}: give at least 1", USAGE)
        shares = self.negative_shares
        if len(shares) != len(KINDS) or not adds_up(shares):
            raise JobError(
                f"--shares {' '.join(f'{share:g}' for share in shares)}: give shares of {', '.join(KINDS)} "
                "that add up to 1, "
                "e.g. 0.2 0.25 0.45 0.1",
                USAGE,
            )
        super().__post_init__()

    def quotas(self) -> dict[Kind, int]:
        """Kind → its number of negatives: the shares, rounded so that they add up (largest remainders).

        >>> ListRules(negatives=8).quotas()
        {'passage': 2, 'document': 2, 'retrieved': 3, 'random': 1}
        """
        exact = [share * self.negatives for share in self.negative_shares]
        # In millionths, so that 0.45 · 20 is 9.
        remainders = [(round((value - math.floor(value + 1e-9)) * 1e6), -n) for n, value in enumerate(exact)]
        numbers = [math.floor(value + 1e-9) for value in exact]
        for _, n in sorted(remainders, reverse=True)[: self.negatives - sum(numbers)]:
            numbers[-n] += 1
        return dict(zip(KINDS, numbers, strict=True))

    def drawn(self, question_id: str, sentence_ids: Iterable[str]) -> list[str]:
        """The sentences in the order in which they are drawn for a question."""
        prefix = f"{self.seed}:{question_id}:"
        return sorted(
            sentence_ids, key=lambda name: (hashlib.sha256((prefix + name).encode()).digest(), name)
        )


class RetrievedSentence(NamedTuple):
    """A sentence that was retrieved for a question."""

    question_id: str
    sentence_id: str
    doc_id: str
    passage_id: str
    """The best ranked passage that holds it."""
    goodness: tuple[float, ...]
    """Sort key of a question's sentences, the best first."""
    position: tuple[int, ...]
    """Sort key in the order of retrieval: by the passage's rank, then in reading order."""


class PlacedSentence(NamedTuple):
    """A sentence in its passage."""

    sentence_id: str
    doc_id: str
    passage_id: str
    start: int
    title: str
    text: str
    previous: str
    """'' if it is the passage's first."""
    next: str
    number: int
    """Its number in its passage, from 0."""
