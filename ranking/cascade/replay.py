"""Any drop schedule of a cascade, replayed without the model, and the best one under a budget (Cascade Transformer §5.5).

`replay` does with the table of `exits.py`, for thousands of schedules, exactly what the cascade would do: at each exit but
the last, ⌊α · k⌋ of each question's k candidates leave, the lowest scored; of equal scores, those that came in later. The
rest is ordered by the last exit, and what has left comes behind it, tied.

It is fast because schedules that begin alike share that beginning (they are walked as a tree), because each exit's order is
sorted once, and because everything else is sums along these orders. The measures are those of `metrics.py`, exact under
ties, in closed form for a whole tie at once.

The paper found no rule for choosing the shares, and left open where to put the exits. `best_under` reads the answer off the
table. As 0 at an exit is no exit there, a grid with 0 answers the second question too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from ranking.cascade.exits import ExitScores
from ranking.cascade.schedule import Schedule, check, dropped
from ranking.evaluation.metrics import METRICS, Bools, Floats, Ints

_DIGITS = 12
"""Means are rounded to so many: schedules that do the same have the same value, in whatever order it was added up."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What each of many schedules did; arrays are [schedules]."""

    schedules: tuple[Schedule, ...]
    cost: Floats
    """Layers × candidates, over all questions, relative to all candidates through all layers of the model."""
    token_cost: Floats
    """Layers × tokens, likewise: a long candidate costs more."""
    metrics: Mapping[str, Floats]
    """Each of METRICS, 0 to 1, as a mean over the questions of the protocol."""
    lost: Ints
    """Answerable questions that lost every correct candidate."""
    answerable: int

    @property
    def loss(self) -> Floats:
        """`lost` as a share of the answerable questions."""
        return self.lost / max(1, self.answerable)

    def best_under(self, budget: float, metric: str) -> int:
        """The schedule of the highest metric whose cost is at most `budget`; of equal ones the cheapest, then the first by its
        shares. Raises ValueError, with the least cost, where there is none."""
        affordable = np.flatnonzero(self.cost <= budget)
        if not len(affordable):
            raise ValueError(
                f"no schedule costs at most {budget}; the cheapest of {len(self.cost)} costs {self.cost.min():.3f}"
            )
        values = self.metrics[metric]
        return int(min(affordable, key=lambda i: (-values[i], self.cost[i], self.schedules[i])))

    def front(self, value: Floats) -> list[int]:
        """The schedules that none beats in both cost and `value` (higher is better), the cheapest first."""
        found: list[int] = []
        for i in sorted(range(len(value)), key=lambda i: (self.cost[i], -value[i], self.schedules[i])):
            if not found or value[i] > value[found[-1]]:
                found.append(i)
        return found


def replay(
    table: ExitScores, schedules: Sequence[Schedule], protocol: Literal["raw", "answerable", "clean"] = "answerable"
) -> Replayed:
    """Do what the cascade would do, for every schedule. Raises ValueError on a schedule that does not suit the exits, or
    where the protocol keeps no question."""
    for schedule in schedules:
        check(table.exits, schedule)
    walk, survivors = _Walk(table, schedules), _Survivors(table, protocol)
    cost, tokens, lost = (np.zeros(len(schedules)) for _ in range(3))
    values = np.zeros((len(METRICS), len(schedules)))
    for numbers, alive, layers_candidates, layers_tokens in walk:
        cost[numbers], tokens[numbers] = layers_candidates, layers_tokens
        measured, gone = survivors.measure(alive)
        values[:, numbers], lost[numbers] = np.array(measured)[:, None], gone
    whole = table.depth * max(1, len(table.question)), table.depth * max(1, int(table.tokens.sum()))
    means = {metric: np.round(of, _DIGITS) for metric, of in zip(METRICS, values, strict=True)}
    return Replayed(tuple(schedules), cost / whole[0], tokens / whole[1], means, lost.astype(np.int64), table.answerable())


def _final_order(table: ExitScores) -> Ints:
    return np.lexsort((table.position, -table.scores[:, -1], table.question))


def _bounds(table: ExitScores) -> Ints:
    """[questions + 1]: question q has the rows from bounds[q] to bounds[q + 1], in the table and in each exit's order."""
    return np.searchsorted(table.question, np.arange(len(table.question_ids) + 1)).astype(np.int64)


class _Walk:
    """The schedules as a tree. Gives, for each different one: its numbers, who survives, layers × candidates, layers × tokens.

    Survivors are [n], in the order of the last exit.
    """

    def __init__(self, table: ExitScores, schedules: Sequence[Schedule]) -> None:
        final, self._bounds = _final_order(table), _bounds(table)
        question, position = table.question[final], table.position[final]
        self._orders = [np.lexsort((position, -scores, question)) for scores in table.scores[final, :-1].T]
        self._tokens = table.tokens[final]
        self._layers = [b - a for a, b in pairwise((0, *table.exits))]
        self._schedules = schedules
        self._counts = np.diff(self._bounds)
        shares = {share for schedule in schedules for share in schedule}
        largest = int(self._counts.max(initial=0))
        self._dropped = {share: np.array([dropped(k, share) for k in range(largest + 1)], np.int64) for share in shares}

    def __iter__(self) -> Iterator[tuple[list[int], Bools, int, int]]:
        return self._below(0, list(range(len(self._schedules))), np.ones(len(self._tokens), np.bool_), 0, 0)

    def _below(
        self, exit_: int, numbers: list[int], alive: Bools, cost: int, tokens: int
    ) -> Iterator[tuple[list[int], Bools, int, int]]:
        """From the state before the layers of exit number `exit_`, for schedules that have done the same so far."""
        cost += self._layers[exit_] * int(np.count_nonzero(alive))
        tokens += self._layers[exit_] * int(self._tokens[alive].sum())
        if exit_ == len(self._orders):
            yield numbers, alive, cost, tokens
            return
        order = self._orders[exit_]
        here = alive[order]
        place = np.concatenate([[0], np.cumsum(here)])  # [i]: survivors before row i
        before, after = place[self._bounds[:-1]], place[self._bounds[1:]]
        branches: dict[float, list[int]] = {}
        for number in numbers:
            branches.setdefault(self._schedules[number][exit_], []).append(number)
        for share, those in branches.items():
            last = after - self._dropped[share][after - before]
            kept = np.empty_like(alive)
            kept[order] = here & (place[1:] <= np.repeat(last, self._counts))
            yield from self._below(exit_ + 1, those, kept, cost, tokens)


class _Survivors:
    """METRICS of a list whose survivors stand in the order of the last exit, the others tied behind them.

    Only ties that hold a correct candidate count. Such a tie has `start` candidates before it, `size` in it, `correct` of
    them correct, and `before` correct ones before it; a candidate that is tied with none is a tie of one.
    """

    def __init__(self, table: ExitScores, protocol: Literal["raw", "answerable", "clean"]) -> None:
        order, bounds = _final_order(table), _bounds(table)
        question, gain = table.question[order], np.maximum(table.label[order], 0)
        score = table.scores[order, -1]
        questions = len(table.question_ids)
        correct = np.bincount(question[gain > 0], minlength=questions)
        counted = correct > 0
        if protocol == "clean":
            counted &= correct < np.diff(bounds)
        self._kept = questions if protocol == "raw" else int(counted.sum())
        if not self._kept:
            raise ValueError(f"protocol {protocol} keeps none of {questions} questions")
        tie = np.cumsum(np.concatenate([[True], (question[1:] != question[:-1]) | (score[1:] != score[:-1])])[: len(order)]) - 1
        edges = np.concatenate([np.flatnonzero(np.diff(tie, prepend=-1)), [len(order)]])
        self._answers = np.flatnonzero(gain > 0)  # rows of the correct candidates
        self._gain = gain[self._answers]
        ties, self._tie = np.unique(tie[self._answers], return_inverse=True)
        self._from, self._to = edges[ties], edges[ties + 1]
        self._answered = np.flatnonzero(correct)  # questions with a correct candidate, to whose numbers the rest refers
        self._first, self._end = bounds[:-1][self._answered], bounds[1:][self._answered]
        self._weight = np.where(counted[self._answered], 1 / self._kept, 0.0)
        self._of_tie = np.searchsorted(self._answered, question[self._from])
        self._of_answer = self._of_tie[self._tie]
        self._first_tie = np.searchsorted(self._of_tie, np.arange(len(self._answered)))
        self._correct = correct[self._answered]
        self._gains = np.bincount(self._of_answer, self._gain, len(self._answered))
        longest = int(np.diff(bounds).max(initial=0))
        ranks = np.arange(1, longest + 1)
        self._harmonic = np.concatenate([[0.0], np.cumsum(1 / ranks)])
        self._log_factorial = np.concatenate([[0.0], np.cumsum(np.log(ranks))])
        self._discount = np.concatenate([[0.0], np.cumsum(np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0))])
        ideal = self._gain[np.lexsort((-self._gain, self._of_answer))]
        place = np.arange(len(ideal)) - np.repeat(np.cumsum(self._correct) - self._correct, self._correct)
        self._ideal = np.bincount(self._of_answer, ideal * np.diff(self._discount)[place], len(self._answered))

    def measure(self, alive: Bools) -> tuple[tuple[float, ...], int]:
        """(METRICS, how many answerable questions lost every correct candidate) for survivors [n] in the last exit's order."""
        place = np.concatenate([[0], np.cumsum(alive)])
        stays = alive[self._answers]
        correct = np.bincount(self._tie[stays], minlength=len(self._from))
        gain = np.bincount(self._tie, np.where(stays, self._gain, 0), len(self._from))
        found = np.bincount(self._of_tie, correct, len(self._answered)).astype(np.int64)
        running = np.concatenate([[0], np.cumsum(correct)])
        survivors = place[self._end] - place[self._first]
        pairs = [  # the survivors' ties, then one tie a question of those that have left
            (self._of_tie, np.arange(len(self._answered))),
            (place[self._from] - place[self._first][self._of_tie], survivors),
            (place[self._to] - place[self._from], self._end - self._first - survivors),
            (correct, self._correct - found),
            (running[:-1] - running[self._first_tie][self._of_tie], found),
        ]
        gains = np.concatenate([gain, self._gains - np.bincount(self._of_tie, gain, len(self._answered))])
        question, start, size, correct, before = (np.concatenate(pair) for pair in pairs)
        holds = correct > 0
        columns = (question[holds], start[holds], size[holds], correct[holds], before[holds])
        return self._sums(*columns, gains[holds]), int((found == 0).sum())

    def _sums(self, question: Ints, start: Ints, size: Ints, correct: Ints, before: Ints, gain: Floats) -> tuple[float, ...]:
        """METRICS from ties: each tie's expectation over its orders, added up."""
        weight, end = self._weight[question], start + size
        share = correct / size
        top = float((weight * share)[start == 0].sum())
        # MAP: place j holds a correct candidate with `share`, and then before + 1 + each * (j - 1) are correct up to it.
        reciprocal = self._harmonic[end] - self._harmonic[start]  # Σ 1 / rank
        each = (correct - 1) / np.maximum(size - 1, 1)
        precision = share * ((before + 1 - each * (start + 1)) * reciprocal + each * size)
        average = float((weight * precision / self._correct[question]).sum())
        discount = self._discount[end] - self._discount[start]
        gained = float((weight * gain / size * discount / self._ideal[question]).sum())
        first = before == 0
        return top, average, self._reciprocal_rank(weight[first], start[first], size[first], correct[first]), gained

    def _reciprocal_rank(self, weight: Floats, start: Ints, size: Ints, correct: Ints) -> float:
        """Σ over places j of P(the first correct one of the tie is the j-th) / (start + j); P = C(size - j, correct - 1) /
        C(size, correct)."""
        places = size - correct + 1
        n, r, s = (np.repeat(values, places) for values in (size, correct, start))
        j = np.arange(len(n)) - np.repeat(np.cumsum(places) - places, places) + 1
        of = self._log_factorial
        log = of[n - j] - of[r - 1] - of[n - j - r + 1] - of[n] + of[r] + of[n - r]
        return float((np.repeat(weight, places) * np.exp(log) / (s + j)).sum())
