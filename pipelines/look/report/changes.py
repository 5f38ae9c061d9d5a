"""Results of a comparison of two runs: everything that compared.json holds and compared.html shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from answermill.ranking.evaluation.significance import Comparison

Kind = Literal["lost", "gained", "other"]
KINDS: tuple[Kind, ...] = ("lost", "gained", "other")
"""Kinds of a change, by P@1 where there are labels; 'other' is neither better nor worse, or unknown."""


@dataclass(frozen=True, slots=True)
class Side:
    """The first answer of a run; all fields are '' or None if there is none."""

    text: str
    score: float | None
    title: str
    url: str
    source_file: str
    source_offset: int | None


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A question whose first answer is another text."""

    question_id: str
    question: str
    kind: Kind
    a: Side
    b: Side


@dataclass(frozen=True, slots=True)
class Amounts:
    """A count, or seconds, of both runs; None where a run has none."""

    what: str
    a: float | None
    b: float | None


@dataclass(frozen=True, slots=True)
class TwoRuns:
    """Everything that is reported about two runs."""

    a: str
    b: str
    settings: tuple[str, ...]
    """A clause for each setting or input that differs."""
    counts: tuple[Amounts, ...]
    seconds: tuple[Amounts, ...]
    dollars: tuple[Amounts, ...]
    """Price of these seconds; empty without a price."""
    has_answers: bool
    """False if neither run has answers: then the numbers of questions are 0."""
    questions: int
    """Questions that both runs have."""
    only_a: int
    only_b: int
    unchanged: int
    changed: Mapping[Kind, int]
    labelled: int
    metrics: Mapping[str, Comparison]
    """P@1 and MRR of A, of B and of their difference, over the questions with labels in both; empty if there
    are none."""
    shown: tuple[ChangedAnswer, ...]
