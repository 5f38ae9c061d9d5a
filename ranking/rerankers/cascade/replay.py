"""Replay of any drop schedule of a cascade without the model, and the best one under a budget (Cascade
Transformer §5.5).

`replay` applies thousands of schedules to the table of `exits.py`, exactly as the cascade would: at each exit
but the last, it drops the ⌊α · k⌋ lowest-scored of each question's k candidates; of equal scores, the later
in the incoming list. The survivors are ordered by the last exit, and the departed candidates follow, all
tied.

It is fast because schedules that begin alike share that beginning (they are walked as a tree), because each
exit's order is sorted once, and because all the rest is sums along these orders. With a prior, whose sum
depends on the remaining candidates, an exit is sorted once for each beginning. The metrics are those of
`ranking/evaluation`, exact under ties.

The paper found no rule for choosing the shares, and left the places of the exits open. `best_under` chooses
both from the table: 0 at an exit means no exit there, so a grid with 0 tries the places too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from answermill.ranking.evaluation.metrics import METRICS
from answermill.ranking.evaluation.ties import Ties, ideal_gain
from answermill.ranking.reranker import rounded
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.schedule import Schedule, check, dropped
from answermill.schemas.arrays import Bools, Floats, Ints

_DIGITS = 12
"""Decimals of a mean, so that equal schedules get equal values, in whatever order they are summed."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Costs and quality of many schedules; arrays are [schedules]."""

    schedules: tuple[Schedule, ...]
    cost: Floats
    """Layers × candidates, over all questions, relative to all candidates through all layers of the model."""
    token_cost: Floats
    """Layers × tokens, in the same way: a long candidate costs more."""
    metrics: Mapping[str, Floats]
    """Name in METRICS → its mean over the questions of the protocol, 0 to 1."""
    lost: Ints
    """Answerable questions that lost every correct candidate."""
    answerable: int

    @property
    def loss(self) -> Floats:
        """`lost` as a share of the answerable questions."""
        return self.lost / max(1, self.answerable)

    def best_under(self, budget: float, metric: str) -> int:
        """Number of the schedule with the highest metric among those that cost at most `budget`; of equal
        ones the cheapest, then the first by its shares. Raises ValueError, with the least cost, if every
        schedule costs more."""
        affordable = np.flatnonzero(self.cost <= budget)
        if not len(affordable):
            raise ValueError(
                f"no schedule costs at most {budget}; the cheapest of {len(self.cost)} costs "
                f"{self.cost.min():.3f}"
            )
        values = self.metrics[metric]
        return int(min(affordable, key=lambda i: (-values[i], self.cost[i], self.schedules[i])))

    def front(self, value: Floats) -> list[int]:
        """Numbers of the schedules that no other beats in both cost and `value` (higher is better), the
        cheapest first."""
        front: list[int] = []
        for i in sorted(range(len(value)), key=lambda i: (self.cost[i], -value[i], self.schedules[i])):
            if not front or value[i] > value[front[-1]]:
                front.append(i)
        return front


def replay(
    table: ExitScores,
    schedules: Sequence[Schedule],
    protocol: Literal["raw", "answerable", "clean"] = "answerable",
) -> Replayed:
    """Replay every schedule as the cascade would apply it. Raises ValueError if a schedule does not suit the
    exits, or the protocol keeps no question."""
    for schedule in schedules:
        check(table.exits, schedule)
    walk, survivors = _Walk(table, schedules), _Survivors(table, protocol)
    cost, tokens, lost = (np.zeros(len(schedules)) for _ in range(3))
    values = np.zeros((len(METRICS), len(schedules)))

    for numbers, alive, layers_candidates, layers_tokens in walk:
        cost[numbers], tokens[numbers] = layers_candidates, layers_tokens
        metrics, lost_questions = survivors.measure(alive)
        values[:, numbers], lost[numbers] = np.array(metrics)[:, None], lost_questions

    all_candidates = table.depth * max(1, len(table.question))
    all_tokens = table.depth * max(1, int(table.tokens.sum()))
    means = {metric: np.round(row, _DIGITS) for metric, row in zip(METRICS, values, strict=True)}
    return Replayed(
        tuple(schedules),
        cost / all_candidates,
        tokens / all_tokens,
        means,
        lost.astype(np.int64),
        table.answerable(),
    )


def _final_order(table: ExitScores) -> Ints:
    return np.lexsort((table.position, -table.scores[:, -1], table.question))


def _bounds(table: ExitScores) -> Ints:
    """[questions + 1]: question q has the rows bounds[q] .. bounds[q + 1] - 1, in the table and in each
    exit's order."""
    return np.searchsorted(table.question, np.arange(len(table.question_ids) + 1)).astype(np.int64)


class _Walk:
    """Walk over the schedules as a tree. For each different one it yields: its numbers in `schedules`, a mask
    of the survivors, layers × candidates, layers × tokens.

    The mask is [n], in the order of the last exit.
    """

    def __init__(self, table: ExitScores, schedules: Sequence[Schedule]) -> None:
        final, self._bounds = _final_order(table), _bounds(table)
        question, position = table.question[final], table.position[final]
        self._table, self._final = table, final
        self._orders = [np.lexsort((position, -scores, question)) for scores in table.scores[final, :-1].T]
        self._tokens = table.tokens[final]
        self._layers = [b - a for a, b in pairwise((0, *table.exits))]
        self._schedules = schedules
        self._counts = np.diff(self._bounds)
        shares = {share for schedule in schedules for share in schedule}

        largest = int(self._counts.max(initial=0))
        self._dropped = {
            share: np.array([dropped(k, share) for k in range(largest + 1)], np.int64) for share in shares
        }

    def __iter__(self) -> Iterator[tuple[list[int], Bools, int, int]]:
        return self._below(0, list(range(len(self._schedules))), np.ones(len(self._tokens), np.bool_), 0, 0)

    def _below(
        self, exit_: int, numbers: list[int], alive: Bools, cost: int, tokens: int
    ) -> Iterator[tuple[list[int], Bools, int, int]]:
        """Walk on from the state before the layers of exit number `exit_`, for schedules with the same shares
        so far."""
        cost += self._layers[exit_] * int(np.count_nonzero(alive))
        tokens += self._layers[exit_] * int(self._tokens[alive].sum())
        if exit_ == len(self._orders):
            yield numbers, alive, cost, tokens
            return

        order = self._order(exit_, alive)
        entering = alive[order]
        place = np.concatenate([[0], np.cumsum(entering)])  # [i]: survivors before row i
        before, after = place[self._bounds[:-1]], place[self._bounds[1:]]

        # Schedules that drop the same share here are one branch.
        branches: dict[float, list[int]] = {}
        for number in numbers:
            branches.setdefault(self._schedules[number][exit_], []).append(number)
        for share, branch in branches.items():
            last = after - self._dropped[share][after - before]
            survives = np.empty_like(alive)
            survives[order] = entering & (place[1:] <= np.repeat(last, self._counts))
            yield from self._below(exit_ + 1, branch, survives, cost, tokens)

    def _order(self, exit_: int, alive: Bools) -> Ints:
        """[n]: rows in the last exit's order, each question's best at this exit first. With a prior it
        depends on the remaining candidates, over which scores are standardised."""
        table = self._table
        if table.prior is None or table.columns is None:
            return self._orders[exit_]
        here = np.sort(self._final[alive])  # in the order of their lists
        decisive = np.zeros(len(alive))
        total = table.prior.total(exit_, table.columns[here], table.question[here], table.scores[here, exit_])
        decisive[here] = rounded(total)
        return np.lexsort((table.position[self._final], -decisive[self._final], table.question[self._final]))


class _Survivors:
    """METRICS of lists in the order of the last exit, with the departed candidates of each tied behind the
    survivors.

    Only ties with a correct candidate count. In the shapes of arrays, `answers` are all correct candidates,
    and `answerable` the questions that have one.
    """

    def __init__(self, table: ExitScores, protocol: Literal["raw", "answerable", "clean"]) -> None:
        order, bounds = _final_order(table), _bounds(table)
        question, gain = table.question[order], np.maximum(table.label[order], 0)
        score = table.scores[order, -1]
        questions = len(table.question_ids)

        # Questions that the protocol keeps.
        correct = np.bincount(question[gain > 0], minlength=questions)
        counted = correct > 0
        if protocol == "clean":
            counted &= correct < np.diff(bounds)
        kept = questions if protocol == "raw" else int(counted.sum())
        if not kept:
            raise ValueError(f"protocol {protocol} keeps no question, of {questions:,}")

        # Ties of the final order that have an answer.
        begins = np.concatenate([[True], (question[1:] != question[:-1]) | (score[1:] != score[:-1])])[
            : len(order)
        ]
        edges = np.append(np.flatnonzero(begins), len(order))
        self._answers = np.flatnonzero(gain > 0)  # [answers]: rows
        self._gain = gain[self._answers]  # [answers]

        # [ties]; [answers].
        ties, self._tie = np.unique((np.cumsum(begins) - 1)[self._answers], return_inverse=True)
        self._tie_start, self._tie_end = edges[ties], edges[ties + 1]  # [ties]: rows

        # Questions with an answer, and the places of their ties and rows.
        answerable = np.flatnonzero(correct)
        # [answerable]: rows of its list.
        self._start, self._end = bounds[:-1][answerable], bounds[1:][answerable]
        # [answerable]: weight of its metrics in the mean.
        self._weight = np.where(counted[answerable], 1 / kept, 0.0)

        # [ties]: numbered as `answerable` is.
        self._question = np.searchsorted(answerable, question[self._tie_start])
        self._first_tie = np.searchsorted(self._question, np.arange(len(answerable)))  # [answerable]
        self._correct = correct[answerable]  # [answerable]
        answer_question = self._question[self._tie]
        self._gains = np.bincount(answer_question, self._gain, len(answerable))  # [answerable]
        self._ideal = ideal_gain(answer_question, self._gain, len(answerable), cut=10)  # [answerable]

    def measure(self, alive: Bools) -> tuple[tuple[float, ...], int]:
        """(METRICS, number of answerable questions that lost every correct candidate) for survivors [n] in
        the last exit's order."""
        place = np.concatenate([[0], np.cumsum(alive)])  # [i]: survivors before row i, of all questions
        stays = alive[self._answers]
        correct = np.bincount(self._tie[stays], minlength=len(self._tie_start))
        gain = np.bincount(self._tie, np.where(stays, self._gain, 0), len(self._tie_start))

        # [answerable]: correct candidates that survive.
        surviving = np.bincount(self._question, correct, len(self._start)).astype(np.int64)
        running = np.concatenate([[0], np.cumsum(correct)])

        survivors = place[self._end] - place[self._start]  # [answerable]
        pairs = [  # the survivors' ties, then one tie per question of its departed candidates
            (self._question, np.arange(len(self._start))),
            (place[self._tie_start] - place[self._start][self._question], survivors),
            (place[self._tie_end] - place[self._tie_start], self._end - self._start - survivors),
            (correct, self._correct - surviving),
            (running[:-1] - running[self._first_tie][self._question], surviving),
            (gain, self._gains - np.bincount(self._question, gain, len(self._start))),
        ]

        # A tie without a correct candidate adds nothing to a metric.
        columns = [np.concatenate(pair) for pair in pairs]
        counts = columns[3] > 0
        question, *fields = (column[counts] for column in columns)
        return self._means(question, Ties(*fields)), int((surviving == 0).sum())

    def _means(self, question: Ints, ties: Ties) -> tuple[float, ...]:
        weight = self._weight[question]  # [ties]
        values = (
            ties.correct_within(1),
            ties.average_precision() / self._correct[question],
            ties.reciprocal_rank(),
            ties.discounted_gain(10) / self._ideal[question],
        )
        return tuple(float(weight @ value) for value in values)
