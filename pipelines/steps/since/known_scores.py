"""Scores that an earlier run gave to the same pairs, taken over instead of computed again.

Only for rerankers whose score of a candidate depends on nothing but the question's text and the candidate's
`deciding_texts` (`Entry.pairwise`): then the list is the same whether a score was taken over or computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from answermill.ranking.context import Reading, ReadsContext
from answermill.ranking.reranker import Costed, Reranker, Resources, order_by
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import CandidateKind, RankedList

Known = Callable[[str], Mapping[tuple[str, ...], float]]
"""A question's text → a candidate's deciding texts → its score."""


def deciding_texts(reading: Reading, parts: tuple[str, ...], passage: Passage) -> tuple[str, ...]:
    """All texts of a candidate that decide its score: the parts that are read of it; for a reader of whole
    passages (PEASI) also the passage and its sentences, each of which explains the others."""
    if "passage" not in reading.context:
        return parts
    return (*parts, passage.text, *(sentence.text for sentence in passage.sentences))


class KnownScores:
    """A reranker that computes only scores that are not known."""

    name: ClassVar[str]
    reads: ClassVar[CandidateKind]
    writes: ClassVar[CandidateKind]

    def __init__(self, reranker: Reranker, known: Known) -> None:
        """Raises ValueError if the reranker does not declare what it reads."""
        if not isinstance(reranker, ReadsContext) or len(reranker.readings) != 1:
            raise ValueError(
                f"{reranker.name} does not say what it reads of a candidate, so no score of it can be taken "
                "over"
            )
        self.readings = reranker.readings
        self.name, self.reads, self.writes = reranker.name, reranker.reads, reranker.writes  # type: ignore[misc]
        self._reranker, self._known = reranker, known
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """Raises TypeError: it wraps a reranker that is already loaded."""
        raise TypeError(f"{cls.__name__} has no entry in the registry")

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        (reading,) = self.readings
        scores: list[dict[str, float]] = []  # [lists]: candidate → score
        unknown = []

        for ranked in lists:
            known = self._known(ranked.question.text)
            texts = dict(zip((c.candidate_id for c in ranked.candidates), reading.texts(ranked), strict=True))
            deciding = {
                c.candidate_id: deciding_texts(reading, texts[c.candidate_id], c.hit.passage)
                for c in ranked.candidates
            }
            scores.append(
                {candidate: known[parts] for candidate, parts in deciding.items() if parts in known}
            )

            rest = tuple(c for c in ranked.candidates if c.candidate_id not in scores[-1])
            unknown.append(replace(ranked, candidates=rest))
            pairs = [(ranked.question.text, *texts[candidate]) for candidate in scores[-1]]
            self._costs.update(taken_over=len(pairs), **reading.missing(pairs))

        pending = [n for n, ranked in enumerate(unknown) if ranked.candidates]
        for n, ranked in zip(pending, self._reranker.rerank([unknown[n] for n in pending]), strict=True):
            scores[n].update({c.candidate_id: c.stages[-1].score for c in ranked.candidates})
        return [
            order_by(ranked, [list_scores[c.candidate_id] for c in ranked.candidates], self.name)
            for ranked, list_scores in zip(lists, scores, strict=True)
        ]

    def costs(self) -> Counter[str]:
        """Costs since the last call: the reranker's, for what it has scored; candidates whose score was taken
        over; and, of these, those without a part that is read."""
        costs, self._costs = self._costs, Counter()
        if isinstance(self._reranker, Costed):
            costs.update(self._reranker.costs())
        return costs
