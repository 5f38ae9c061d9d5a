"""Sample of a question's sentences for people to judge, and estimates for all sentences from the judged ones
(WQA §3.2). Pure functions.

In the paper the top 15 are judged. They do not show how many correct sentences are below them, so a simple
random sample of those is judged too, with its probability, and known sentences as blind controls. Horvitz and
Thompson (1952) weight each judged sentence by 1 / probability; a question's top and its rest are strata
(Cochran 1977, §5).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Stratum = Literal["top", "random", "control"]


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Numbers of sentences of a question that people judge."""

    top: int = 15
    random: int = 2
    """Sentences drawn below the top, per question."""
    control_share: float = 0.05
    """Share of controls in a question's tasks, where it has known sentences."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SampledSentence:
    """A sentence to be judged; `number` is its place, from 0, in the order of the plan."""

    number: int
    stratum: Stratum
    probability: float
    expected: int | None


def choose(
    question_id: str,
    sentences: Sequence[str],
    known: Mapping[str, int],
    rules: SamplingRules,
    top: Sequence[int] | None = None,
) -> list[SampledSentence]:
    """The sentences to be judged, out of a question's (ids, best first, each once), in an order that reveals
    nothing.

    The first `rules.top`, or those whose numbers are `top`, each with probability 1; of the M others a simple
    random sample of m, each with m / M; and of the `known` others (id → label) as many controls as make up
    `control_share`, each with its chance. A sentence that is drawn twice counts once, as random before
    control. A known sentence has its label as `expected`, whatever its stratum. Choices are by hashes of
    seed, question and sentence, so they depend on no order but the plan's.
    """
    if len(set(sentences)) != len(sentences):
        raise ValueError(f"question {question_id}: a sentence comes twice")

    first = range(len(sentences))[: rules.top] if top is None else top
    below = sorted(set(range(len(sentences))) - set(first))

    def drawn(numbers: Iterable[int], many: int, purpose: str) -> list[int]:
        return sorted(numbers, key=lambda n: draw(rules.seed, purpose, question_id, sentences[n]))[:many]

    strata: dict[int, tuple[Stratum, float]] = dict.fromkeys(first, ("top", 1.0))
    random = drawn(below, rules.random, "random")
    strata |= {number: ("random", len(random) / len(below)) for number in random}
    candidates = [number for number in below if sentences[number] in known]
    expected = min(len(candidates), len(strata) * rules.control_share / (1 - rules.control_share))
    whole = math.floor(expected)
    many = whole + (draw(rules.seed, "controls", question_id) < expected - whole)  # `expected` on average
    for number in drawn(candidates, many, "control"):
        strata.setdefault(number, ("control", expected / len(candidates)))

    order = sorted(strata, key=lambda n: draw(rules.seed, "order", question_id, sentences[n]))
    return [SampledSentence(n, *strata[n], known.get(sentences[n])) for n in order]


def draw(seed: int, *names: str) -> float:
    """A number in [0, 1) that depends on nothing but these."""
    key = "\0".join((str(seed), *names))
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


class JudgedSentence(Protocol):
    """A judged sentence, e.g. a ResolvedLabel."""

    @property
    def question_id(self) -> str: ...
    @property
    def label(self) -> int: ...
    @property
    def stratum(self) -> str: ...
    @property
    def probability(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimates for all sentences, judged or not, from the judged ones; `_se` is a standard error over draws.

    It is NaN where a question has one random sentence of several: two are the fewest that show a spread.
    Where no correct one was drawn it is 0, which is no proof that there is none.
    """

    questions: int
    sentences: float
    """Number by the probabilities; exact where all chosen sentences were judged."""
    correct: float
    correct_se: float
    prevalence: float
    """Share of the sentences that are correct."""
    prevalence_se: float
    recall: float
    """Share of the correct sentences that are in the top; NaN where none was found."""
    recall_se: float


def estimate(judged: Iterable[JudgedSentence]) -> tuple[Estimate, dict[str, Estimate]]:
    """Estimates for all questions together, and for each. Controls do not count: they were not drawn from
    all.

    Correct sentences and prevalence are without bias over draws. Recall is a ratio with a random denominator;
    its first-order bias is subtracted. All drawn sentences must have been judged: one that is left out makes
    the rest of a question smaller than it is.
    """
    rows: dict[str, list[JudgedSentence]] = {}
    for row in judged:
        if row.stratum != "control":
            rows.setdefault(row.question_id, []).append(row)
    sums = {question: _sums(question_rows) for question, question_rows in sorted(rows.items())}
    estimates = {question: _estimate(1, *values) for question, values in sums.items()}
    totals = np.sum(list(sums.values()), axis=0, initial=0.0) if sums else np.zeros(4)
    return _estimate(len(sums), *totals), estimates


def _sums(rows: Sequence[JudgedSentence]) -> tuple[float, float, float, float]:
    """Sentences, correct in the top, correct below it, and the variance of the last."""
    below = [row for row in rows if row.stratum != "top"]
    top = [row.label for row in rows if row.stratum == "top"]
    if not below:
        return float(len(top)), float(sum(top)), 0.0, 0.0
    labels = np.array([row.label for row in below], dtype=np.float64)
    weights = 1 / np.array([row.probability for row in below])
    many, drawn = float(weights.sum()), len(below)
    unseen = 1 - drawn / many  # finite population correction
    spread = labels.var(ddof=1) if drawn > 1 else math.nan
    variance = many**2 * unseen * spread / drawn if unseen > 1e-9 else 0.0
    return len(top) + many, float(sum(top)), float(labels @ weights), float(variance)


def _estimate(questions: int, sentences: float, top: float, below: float, variance: float) -> Estimate:
    correct, se = top + below, math.sqrt(variance)
    recall = top / correct - top * variance / correct**3 if correct else math.nan
    return Estimate(
        questions=questions,
        sentences=float(sentences),
        correct=float(correct),
        correct_se=se,
        prevalence=float(correct / sentences) if sentences else math.nan,
        prevalence_se=float(se / sentences) if sentences else math.nan,
        recall=float(recall),
        recall_se=float(top * se / correct**2) if correct else math.nan,
    )
