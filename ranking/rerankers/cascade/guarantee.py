"""The cheapest drop schedule that seldom loses every correct candidate, with a finite-sample guarantee.

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, arXiv:2110.01052, 2021) in the form of Pareto
testing (Laufer-Goldshtein, Fisch, Barzilay and Jaakkola, ICLR 2023). The risk of a schedule is the
probability that an answerable question loses every correct candidate on the way. A hash of its id puts a
question into one of two halves. On the first half the schedules are ordered, from the safest to the cheapest.
On the second they are tested in that order, each against "its risk is above δ", until one is not rejected at
level ε; the last rejected one, the cheapest, is chosen. Since the order was fixed before the second half was
read, and the first failure ends the tests, all of them together err with probability ε at most.

The guarantee: with probability 1 - ε over the second half, the risk of the schedule that is returned is at
most δ, for any number of schedules, model and distribution. It needs questions that are independent draws of
the same kind as future ones, and a second half that has decided nothing else; a checkpoint that was picked by
its score on it has seen it already. Nothing is guaranteed for another kind of questions or longer lists, for
a single question, or about the rank of the correct candidates that stay.

Departs from Pareto testing in one thing: ever milder forms of its safest member precede the front (cost
against loss). On a small dev set that member may have lost nothing by luck; if it fails, a schedule between
it and dropping nothing at all may still pass. The order still depends on the first half alone, so the
guarantee is unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answermill.ranking.evaluation.learn_then_test import binomial_tail, fixed_sequence, questions_needed
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.replay import Replayed, replay
from answermill.ranking.rerankers.cascade.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """A schedule and its test on the second half."""

    schedule: Schedule
    delta: float
    epsilon: float
    questions: int
    """Answerable questions in the second half."""
    lined_up: int
    """Number of schedules that could have been tested."""
    rejected: int
    """Number of schedules, from the safest on, that were shown to have a risk of at most δ."""
    lost: int
    """Number of questions of the second half that `schedule` lost."""
    p: float | None
    """p-value of the test that it passed; None if it drops nothing, which needs no test."""

    def statement(self) -> str:
        """The guarantee in one sentence."""
        bound = f"P(an answerable question loses every correct candidate) ≤ {self.delta:g}"
        if self.p is not None:
            seen = f"{self.lost} of {self.questions} held-back questions lost, p = {self.p:.2g}"
            return f"{bound} with confidence {1 - self.epsilon:g} ({seen})"
        needed = questions_needed(self.delta, self.epsilon)
        if not self.lined_up:
            why = "no schedule drops anything"
        elif self.questions < needed:
            why = f"{self.questions} answerable questions are held back and {needed} needed"
        else:
            why = f"the safest schedule that drops something failed on {self.questions} held-back questions"
        return (
            f"no schedule could be shown to have {bound} with confidence {1 - self.epsilon:g}: {why}; "
            "nothing is dropped"
        )


def guarantee(
    table: ExitScores, schedules: Sequence[Schedule], delta: float = 0.05, epsilon: float = 0.1, seed: int = 0
) -> Guaranteed:
    """Schedule of least cost whose risk is at most `delta`, with confidence 1 - `epsilon`; the one that drops
    nothing if this can be shown of none. `seed`: seed of the halves.

    Raises ValueError if `delta` or `epsilon` is not between 0 and 1.
    """
    for name, value in (("delta", delta), ("epsilon", epsilon)):
        if not 0 < value < 1:
            raise ValueError(f"{name} = {value}; give a probability above 0 and below 1")

    first, second = table.halves(seed)
    nothing = (0.0,) * (len(table.exits) - 1)
    drops = [schedule for schedule in dict.fromkeys(schedules) if schedule != nothing]
    questions = second.answerable()
    if not drops or not first.answerable() or questions < questions_needed(delta, epsilon):
        return Guaranteed(nothing, delta, epsilon, questions, len(drops), 0, 0, None)

    # The first half orders the schedules, and the second tests them in this order.
    order = line_up(replay(first, drops))
    lost = [int(n) for n in replay(second, order).lost]
    rejected = fixed_sequence(lost, questions, delta, epsilon)
    if not rejected:
        return Guaranteed(nothing, delta, epsilon, questions, len(order), 0, 0, None)

    last = rejected - 1
    p = binomial_tail(lost[last], questions, delta)
    return Guaranteed(order[last], delta, epsilon, questions, len(order), rejected, lost[last], p)


def line_up(replayed: Replayed) -> list[Schedule]:
    """The Pareto front of cost and loss from the safest to the cheapest, preceded by milder forms of its
    safest: no share higher, at least one lower, and each time the cheapest of these."""
    front = [replayed.schedules[i] for i in reversed(replayed.front(-replayed.loss))]
    cost = dict(zip(replayed.schedules, replayed.cost, strict=True))
    milder = front[:1]
    while below := [
        s for s in cost if s != milder[-1] and all(a <= b for a, b in zip(s, milder[-1], strict=True))
    ]:
        milder.append(min(below, key=lambda s: (cost[s], s)))
    return milder[:0:-1] + front
