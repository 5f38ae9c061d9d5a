"""RM3, pseudo-relevance feedback (Abdul-Jaleel et al., UMass at TREC 2004), as Anserini does it: words of the
passages that BM25 returns first are added to the question, which is then searched again.

All that decides a word and its weight is of the whole corpus: the first passages of all shards, and in how
many passages a word is. So any number of shards adds the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Bag: TypeAlias = Mapping[str, float]
"""Word, as Lucene's analyser gives it → its weight, or how often it occurs."""

MOST_COMMON = 0.1
"""Share of the passages; a word that is in more of them is not added."""
_LENGTHS = range(2, 21)


@dataclass(frozen=True, slots=True)
class Feedback:
    """Settings of RM3."""

    passages: int = 10
    """Passages whose words are looked at."""
    words: int = 10
    """Most words of a passage, and of all, that are added."""
    question_weight: float = 0.5
    """Share of the weight that stays with the question's own words."""


def candidate_words(words: Bag) -> dict[str, float]:
    """The words of a passage that may be added, unless they are common: of 2 to 20 letters and digits.
    Departs from Anserini, which takes ASCII alone: other languages have other letters.

    >>> candidate_words({"glacier": 2, "x": 1, "1.5": 1, "été": 1})
    {'glacier': 2, 'été': 1}
    """
    return {word: n for word, n in words.items() if len(word) in _LENGTHS and word.isalnum()}


def expanded(
    question: Bag,
    passages: Sequence[tuple[float, Bag]],
    frequencies: Mapping[str, int],
    documents: int,
    settings: Feedback = Feedback(),
) -> dict[str, float]:
    """A question's words and the added ones, with weights that add up to 1, by word.

    `passages`: score and `candidate_words` of the first ones, best first. `frequencies`: in how many of the
    `documents` of the corpus each of their words is. Without such a word the question's own have all weight.

    >>> first = [(3.0, {"ice": 2, "melt": 1, "common": 5}), (1.0, {"melt": 1})]
    >>> weights = expanded({"glacier": 1}, first, {"ice": 1, "melt": 2, "common": 50}, 100)
    >>> {word: round(weight, 3) for word, weight in weights.items()}
    {'glacier': 0.5, 'ice': 0.25, 'melt': 0.25}
    """
    added = dict[str, float]()
    for score, words in passages[: settings.passages]:
        rare = {word: n for word, n in words.items() if frequencies[word] <= MOST_COMMON * documents}
        best = _largest(rare, settings.words)
        total = sum(best.values())
        for word, n in best.items():
            added[word] = added.get(word, 0.0) + n / total * score

    added = _largest(added, settings.words)
    own, others = sum(question.values()), sum(added.values())
    own_weight = settings.question_weight if others else 1.0
    weights = {word: own_weight * n / own for word, n in question.items()}
    for word, weight in added.items():
        weights[word] = weights.get(word, 0.0) + (1 - own_weight) * weight / others
    return {word: weights[word] for word in sorted(weights)}


def _largest(weights: Bag, number: int) -> dict[str, float]:
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:number])
