"""Fates of the correct candidates: P@1 and MRR after each stage, and the loss of a question's last one.

The protocol is 'answerable': all questions with a correct candidate in the labels count, ranked or not. A
stage's order is that of its outgoing list, where equal scores keep their incoming order; without such ties
the figures are those of `answermill evaluate --by STAGE`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.look.report.agreement import RETRIEVAL
from answermill.pipelines.look.report.scored_blocks import Bools, Floats, Ints, ScoredBlock
from answermill.ranking.evaluation.metrics import Judged, measure

PLAN = "the plan's result"
Fate = Literal["not retrieved", "dropped", "grouped", "not first", "first"]
"""Fate of a question's furthest correct candidate. 'grouped': a stage took another sentence of its
passage."""
_METRICS = ("P@1", "MRR")


@dataclass(frozen=True, slots=True)
class OrderQuality:
    """An order of a plan against the labels, over all questions with a correct candidate."""

    order: str
    alive: int
    """Questions that still had a correct candidate."""
    p1: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Fates:
    """Number of questions whose correct candidates had this fate. `stage`: the stage that dropped the last of
    them, else ''."""

    fate: Fate
    stage: str
    questions: int


@dataclass(frozen=True, slots=True)
class Quality:
    """A run against its labels."""

    labels: str
    questions: int
    """Questions with a correct candidate in the labels."""
    orders: tuple[OrderQuality, ...]
    """Orders of retrieval, of each stage, and of the plan."""
    outcomes: tuple[Fates, ...]


@dataclass(frozen=True, slots=True)
class QuestionValues:
    """P@1 and MRR of the plan's result by question, for all questions with a correct candidate in the
    labels."""

    p1: dict[str, float]
    mrr: dict[str, float]


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """A question whose first answer is wrong, though a correct candidate was retrieved."""

    fate: Fate
    stage: str
    """Stage that dropped the last correct candidate, if one did."""
    row: int
    """Row of the part with the furthest correct candidate."""


class CorrectAnswers:
    """Sums of the fates of the correct candidates of `labels`, block by block."""

    def __init__(self, labels: Path, name: str, stages: Sequence[str], form: Form = None) -> None:
        """`name`: name of the labels for people. Raises JobError as `read_labels`."""
        values = read_labels(labels, form).values
        self._labels = pa.table(
            {
                "question_id": values.question_id,
                "candidate_id": values.candidate_id,
                "is_correct": pa.array(values.value > 0),
            }
        )
        correct = self._labels.filter(self._labels["is_correct"]).combine_chunks()
        self._name, self._stages = name, tuple(stages)
        self._questions = pc.unique(correct["question_id"])
        self._keys = _key(correct["question_id"], correct["candidate_id"])

        self._sums = np.zeros((len(stages) + 2, 3))  # alive, P@1, MRR of each order
        self._outcomes: Counter[tuple[Fate, str]] = Counter()
        zeros = dict.fromkeys(self._questions.to_pylist(), 0.0)
        self.values = QuestionValues(zeros, dict(zeros))

    def add(self, block: ScoredBlock) -> dict[int, LostAnswer]:
        """Add the questions of a block; returns its losses by the question's number in it."""
        ids = pa.array(block.question_ids, pa.string())
        has_label = pc.is_in(ids, value_set=self._questions).to_numpy(zero_copy_only=False)
        key = _key(ids.take(pa.array(block.question)), block.candidate_id)
        correct = pc.is_in(key, value_set=self._keys).to_numpy(zero_copy_only=False) & block.is_answer_kind
        departure = _departure(block)
        furthest = np.full(len(ids), -1, np.int64)
        np.maximum.at(furthest, block.question[correct], departure[correct])
        for n in range(len(self._stages) + 2):
            self._sums[n, 0] += (furthest >= n).sum()

        # The plan's order is that of the rows.
        orders = [block.position + 1, *block.stage_rank.T, np.arange(1, len(block) + 1)]
        for n, ranks in enumerate(orders):
            p1, mrr = _values(block, ranks, correct, has_label)
            self._sums[n, 1:] += p1.sum(), mrr.sum()

        for number in np.flatnonzero(has_label).tolist():
            name = block.question_ids[number]
            self.values.p1[name], self.values.mrr[name] = float(p1[number]), float(mrr[number])

        losses = self._losses(block, correct, departure)
        self._outcomes.update((loss.fate, loss.stage) for loss in losses.values())
        self._outcomes["first", ""] += (
            int(has_label.sum()) - len(losses) - int((has_label & (furthest < 0)).sum())
        )

        return losses

    def _losses(self, block: ScoredBlock, correct: Bools, departure: Ints) -> dict[int, LostAnswer]:
        rows = np.flatnonzero(correct)
        best = rows[np.lexsort((rows, block.rank[rows], -departure[rows], block.question[rows]))]
        losses = {}
        for number, first in zip(*np.unique(block.question[best], return_index=True), strict=True):
            row = int(best[first])
            if block.rank[row] == 1:
                continue
            fate: Fate = "not first" if block.rank[row] else "grouped" if block.is_grouped[row] else "dropped"
            stage = self._stages[block.dropped_by[row]] if fate == "dropped" else ""
            losses[int(number)] = LostAnswer(fate, stage, block.first_row + row)
        return losses

    @property
    def has_any(self) -> bool:
        """True if any candidate is labelled correct."""
        return len(self._questions) > 0

    def labels(self, questions: Collection[str]) -> dict[tuple[str, str], bool]:
        """(question id, candidate id) → True if it is correct, of the judged candidates of these
        questions."""
        asked = pc.is_in(self._labels["question_id"], value_set=pa.array(sorted(questions), pa.string()))
        columns = (column.to_pylist() for column in self._labels.filter(asked).columns)
        return {(question, candidate): correct for question, candidate, correct in zip(*columns, strict=True)}

    def judge(self, question_ids: pa.Array, candidate_ids: pa.Array) -> pa.Array:
        """[n]: True for a candidate that is labelled correct, False for one that is labelled wrong, else
        null."""
        labels = self._labels.combine_chunks()
        keys = _key(labels["question_id"], labels["candidate_id"])
        places = pc.index_in(_key(question_ids, candidate_ids), value_set=keys.combine_chunks())
        return pc.take(labels["is_correct"].combine_chunks(), places)

    def result(self) -> Quality:
        questions = max(1, len(self._questions))
        order_names = (RETRIEVAL, *self._stages, PLAN)
        orders = tuple(
            OrderQuality(name, int(alive), float(p1 / questions), float(mrr / questions))
            for name, (alive, p1, mrr) in zip(order_names, self._sums, strict=True)
        )
        counts = self._outcomes
        outcomes = [Fates("not retrieved", "", len(self._questions) - counts.total())]
        outcomes += [Fates("dropped", stage, counts["dropped", stage]) for stage in self._stages]
        others: tuple[Fate, ...] = ("grouped", "not first", "first")
        outcomes += [Fates(fate, "", counts[fate, ""]) for fate in others]
        return Quality(self._name, len(self._questions), orders, tuple(outcomes))


def _departure(block: ScoredBlock) -> Ints:
    """[n]: number of stages that the candidate has passed, plus 1 if it was kept to the end."""
    stages = block.score.shape[1]
    passed = np.where(block.dropped_by >= 0, block.dropped_by, stages + 1)
    has_score = ~np.isnan(block.score)
    last = np.where(has_score.any(axis=1), stages - np.argmax(has_score[:, ::-1], axis=1), 0)
    return np.where(block.is_grouped, last, passed).astype(np.int64)


def _values(block: ScoredBlock, ranks: Ints, correct: Bools, has_label: Bools) -> tuple[Floats, Floats]:
    """[questions] each: P@1 and MRR of an order; candidates with rank 0 are not in it."""
    ranked = (ranks > 0) & block.is_answer_kind & has_label[block.question]
    judged = Judged(
        len(block.question_ids),
        block.question[ranked],
        -ranks[ranked].astype(np.float64),
        correct[ranked].astype(np.int64),
        ranked[ranked],
    )
    values = measure(judged, _METRICS)
    return values["P@1"].expected, values["MRR"].expected


def _key(question_id: pa.Array, candidate_id: pa.Array) -> pa.Array:
    """One text for question and candidate, joined by a character that neither has."""
    return pc.binary_join_element_wise(question_id, candidate_id, "\x1f")
