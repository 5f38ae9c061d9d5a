"""The reranker `letters`: a sentence's score is the share of its letters that the settings name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from answermill.ranking.reranker import Resources, order_by
from answermill.schemas.ranked import CandidateKind, RankedList
from answermill_example import LettersStage


class Letters:
    """Share of the letters of a sentence that are among those of the stage's key `letters`."""

    name: ClassVar[str] = "letters"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"
    Settings: ClassVar[type[LettersStage]] = LettersStage

    def __init__(self, letters: str, key: str) -> None:
        """`key`: the stage's name in the plan, under which its scores are stored."""
        self._letters, self._key = frozenset(letters), key

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """The reranker of a stage of a plan."""
        return cls(resources.stage(LettersStage).letters, resources.settings.key)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        """The lists, each ordered by the scores of its candidates."""
        return [order_by(each, [self.score(c.text) for c in each.candidates], self._key) for each in lists]

    def score(self, text: str) -> float:
        """Share of the letters, from 0 to 1."""
        letters = [letter for letter in text.lower() if letter.isalpha()]
        return sum(letter in self._letters for letter in letters) / max(len(letters), 1)
