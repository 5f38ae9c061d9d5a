"""Scores of every candidate of a dev set at every exit, from one pass of a cascade that drops nothing.

A candidate's score at an exit does not depend on the other candidates, so this table has all scores that any
drop schedule would read: `replay.py` tries schedules on it, `guarantee.py` tests them, and neither needs the
model again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.cascade.prior import Prior
from answermill.ranking.rerankers.cascade.schedule import check
from answermill.schemas.arrays import Bools, Floats, Ints
from answermill.schemas.ranked import RankedList


@dataclass(frozen=True, slots=True)
class ExitRows:
    """Scores of one list's candidates by a full pass, in the list's order."""

    scores: Floats
    """[candidates, exits]"""
    tokens: Ints
    """[candidates]: tokens of question and candidate in the layers."""
    columns: Floats | None = None
    """[candidates, names]: known scores that the model's prior reads; None if it has no prior."""


class ExitModel(Protocol):
    """The part of a cascade that its schedule depends on."""

    @property
    def exits(self) -> tuple[int, ...]:
        """Layers after which there is a classifier, counted from 1."""
        ...

    @property
    def depth(self) -> int:
        """Number of layers of the monolithic model, to which costs are relative."""
        ...

    def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
        """Score of every candidate at every exit, without dropping."""
        ...


@dataclass(frozen=True, slots=True)
class ExitScores:
    """Candidates of a dev set with their scores at every exit: flat arrays, a question's candidates one
    after the other."""

    exits: tuple[int, ...]
    depth: int
    question_ids: tuple[str, ...]
    question: Ints
    """[n]: number of the candidate's question, from 0, ascending."""
    label: Ints
    """[n]: gain; 0 or less = wrong."""
    position: Ints
    """[n]: place in the incoming list, from 0."""
    tokens: Ints
    """[n]"""
    scores: Floats
    """[n, exits]: rounded like the scores that order a list."""
    prior: Prior | None = None
    """Prior by which candidates leave; None if the exit's score alone decides."""
    columns: Floats | None = None
    """[n, names]: known scores that the prior reads."""

    def __post_init__(self) -> None:
        check(self.exits, (0.0,) * (len(self.exits) - 1))
        if self.exits[-1] > self.depth:
            raise ValueError(f"exits = {list(self.exits)} go beyond the model's {self.depth} layers")

        n = len(self.question)
        if {len(self.label), len(self.position), len(self.tokens)} != {n} or self.scores.shape != (
            n,
            len(self.exits),
        ):
            raise ValueError(
                f"scores of shape {self.scores.shape} for {n} candidates and {len(self.exits)} exits"
            )

        if self.prior is not None and (
            self.columns is None or self.columns.shape != (n, len(self.prior.sums[0].names))
        ):
            raise ValueError(
                f"a prior of {', '.join(self.prior.sums[0].names)}, and columns that are not those of {n} "
                "candidates"
            )

        if (np.diff(self.question) < 0).any():
            raise ValueError("the candidates of a question must stand together, questions in ascending order")

        if not np.isfinite(self.scores).all():
            row, column = np.argwhere(~np.isfinite(self.scores))[0]
            where = f"candidate {self.position[row]} of question {self.question_ids[self.question[row]]}"
            raise ValueError(f"score {self.scores[row, column]} after layer {self.exits[column]} for {where}")

    @classmethod
    def of(
        cls,
        exits: Sequence[int],
        depth: int,
        question_ids: Sequence[str],
        labels: Sequence[Sequence[int]],
        rows: Sequence[ExitRows],
        *,
        prior: Prior | None = None,
    ) -> ExitScores:
        """Table from labels and rows per question, both in the order of the question's list. `prior` is the
        model's."""
        counts = [len(question) for question in labels]
        for name, count, row in zip(question_ids, counts, rows, strict=True):
            if row.scores.shape != (count, len(exits)) or len(row.tokens) != count:
                raise ValueError(
                    f"question {name}: scores of shape {row.scores.shape} for {count} candidates, "
                    f"{len(exits)} exits"
                )

        scores = np.concatenate([np.empty((0, len(exits))), *(row.scores for row in rows)])
        return cls(
            tuple(exits),
            depth,
            tuple(question_ids),
            np.repeat(np.arange(len(counts)), counts),
            np.array([label for question in labels for label in question], np.int64),
            np.concatenate([np.empty(0, np.int64), *(np.arange(count) for count in counts)]),
            np.concatenate([np.empty(0, np.int64), *(row.tokens for row in rows)]).astype(np.int64),
            rounded(scores),
            prior,
            np.concatenate([row.columns for row in rows if row.columns is not None])
            if prior and rows
            else None,
        )

    def pick(self, keep: Bools) -> ExitScores:
        """Questions for which `keep` [questions] is true, numbered again from 0."""
        here = keep[self.question]

        return ExitScores(
            self.exits,
            self.depth,
            tuple(name for name, kept in zip(self.question_ids, keep, strict=True) if kept),
            (np.cumsum(keep) - 1)[self.question[here]],
            self.label[here],
            self.position[here],
            self.tokens[here],
            self.scores[here],
            self.prior,
            None if self.columns is None else self.columns[here],
        )

    def halves(self, seed: int = 0) -> tuple[ExitScores, ExitScores]:
        """Two sets of about equally many questions; a hash of its id and the seed decides the set of a
        question."""
        digests = (hashlib.sha256(f"{seed}:{name}".encode()).digest() for name in self.question_ids)
        first = np.array([digest[0] < 128 for digest in digests], np.bool_)
        return self.pick(first), self.pick(~first)

    def answerable(self) -> int:
        """Number of questions with a correct candidate."""
        return len(np.unique(self.question[self.label > 0]))
