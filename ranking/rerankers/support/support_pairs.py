"""`support_pairs`: what a cross-encoder says of a candidate when it has read another good one before it.

After Zhang, Vu and Moschitti, "Joint Models for Answer Verification in Question Answering Systems", ACL 2021,
whose classifier decides whether one answer supports another, refutes it or is neutral. Reads sentences,
writes sentences.

Departs from the paper, which trains that classifier and joins it with a model of single answers in one
network. Here a checkpoint of `cascade` scores the candidate as an answer to the question with the other's
text behind it, and the score is the weighted mean of its logits over the best others (`best_others.py`).
Nothing is trained for it; a later `blend` joins it with what is known of the candidate alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load_cascade
from answermill.ranking.rerankers.support.best_others import BestOthers, Choice
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.ranked import CandidateKind, RankedList


class SupportPairs:
    """Reranker by the weighted mean of the last exit's logits; 0 of a single candidate."""

    name: ClassVar[str] = "support_pairs"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, ranker: Cascade, choice: Choice) -> None:
        """`ranker`: scorer of the pairs, of which it drops none."""
        self._ranker, self._choice = ranker, choice
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        model, tokeniser = load_cascade(resources.folder(), resources.model)
        return cls(Cascade(model, tokeniser, device=resources.device), Choice.load(resources))

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Reading of its model."""
        return self._ranker.readings

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        others = [self._choice.others(ranked) for ranked in lists]
        asked = [list(questions(ranked, each)) for ranked, each in zip(lists, others, strict=True)]
        exits = iter(self._ranker.exit_scores([one.ranked for some in asked for one in some]))
        self._count(lists)

        reranked = []
        for ranked, each, some in zip(lists, others, asked, strict=True):
            logits: Floats = np.zeros(each.places.shape)
            for one in some:
                logits[one.rows, one.columns] = next(exits).scores[:, -1]
            reranked.append(order_by(ranked, each.mean(logits), self.name))
        return reranked

    def _count(self, lists: Sequence[RankedList]) -> None:
        """Add the costs of the pairs; candidates are counted once."""
        (reading,) = self.readings
        work = self._ranker.costs()
        counted = ("tokens", "tokens_cut", "layer_tokens", "milliseconds")
        self._costs.update({key: work[key] for key in counted})
        self._costs.update(
            candidates=sum(len(ranked.candidates) for ranked in lists), pairs=work["candidates"]
        )
        self._costs.update(reading.missing(reading.tuples(lists)))

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, pairs, their tokens, tokens cut, layers × tokens,
        milliseconds, and candidates without a part that the model reads."""
        costs, self._costs = self._costs, Counter()
        return costs


class AskedWith(NamedTuple):
    """The candidates that are compared with one other, whose text is behind the question."""

    ranked: RankedList
    rows: Ints
    """[candidates of it]: their places in the whole list."""
    columns: Ints
    """[candidates of it]: place of the other among their others."""


def questions(ranked: RankedList, others: BestOthers) -> Iterator[AskedWith]:
    """A list for each candidate that is another's other."""
    for other in np.unique(others.places).tolist():
        rows, columns = np.nonzero(others.places == other)
        text = f"{ranked.question.text} {ranked.candidates[other].text}"
        question = replace(ranked.question, text=text)
        yield AskedWith(
            RankedList(question, tuple(ranked.candidates[row] for row in rows.tolist())), rows, columns
        )
