"""The guarantee holds where the truth is known, and says so where it cannot be given."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from answermill.ranking.evaluation.learn_then_test import binomial_tail
from answermill.ranking.rerankers.cascade.exits import ExitRows, ExitScores
from answermill.ranking.rerankers.cascade.guarantee import guarantee, line_up
from answermill.ranking.rerankers.cascade.replay import replay
from answermill.ranking.rerankers.cascade.schedule import grid

EXITS = (2, 4, 6)
SCHEDULES = grid((0.0, 0.2, 0.4, 0.6, 0.8), EXITS)
CANDIDATES = 10


def drawn(generator: np.random.Generator, questions: int, seen: float = 1.6) -> ExitScores:
    """Questions of ten candidates, one of them correct, which the early exits see dimly; `seen` is its
    lead."""
    labels = np.zeros((questions, CANDIDATES), np.int64)
    labels[:, 3] = 1
    noise = generator.normal(size=(questions, CANDIDATES, len(EXITS))) * (1.0, 0.7, 0.5)
    scores = labels[..., None] * seen + noise
    rows = [ExitRows(one, np.full(CANDIDATES, 10)) for one in scores]
    return ExitScores.of(EXITS, 6, [f"q{n}" for n in range(questions)], labels.tolist(), rows)


@pytest.fixture(scope="module")
def truth() -> dict[tuple[float, ...], float]:
    """Each schedule's risk, from very many questions."""
    replayed = replay(drawn(np.random.default_rng(0), 20_000), SCHEDULES)
    return dict(zip(SCHEDULES, replayed.loss.tolist(), strict=True))


@pytest.mark.parametrize(
    ("questions", "delta", "epsilon"),
    [(150, 0.1, 0.2), pytest.param(300, 0.05, 0.1, marks=pytest.mark.nightly)],
)
def test_over_many_dev_sets_the_true_risk_seldom_exceeds_delta(
    truth, questions: int, delta: float, epsilon: float
) -> None:
    generator = np.random.default_rng(questions)
    rounds = 50
    guaranteed = greedy = dropping = 0

    for _ in range(rounds):
        table = drawn(generator, questions)
        plan = guarantee(table, SCHEDULES, delta, epsilon)
        guaranteed += truth[plan.schedule] > delta
        dropping += any(plan.schedule)
        # What one would take without a test: the cheapest that did well here.
        whole = replay(table, SCHEDULES)
        seemed = min((whole.cost[i], s) for i, s in enumerate(SCHEDULES) if whole.loss[i] <= delta)[1]
        greedy += truth[seemed] > delta

    slack = 2 * math.sqrt(epsilon * (1 - epsilon) / rounds)
    assert guaranteed / rounds <= epsilon + slack
    assert greedy / rounds > 2 * epsilon + slack  # the case is not trivial,
    assert dropping / rounds > 0.9  # and the guarantee is not had by dropping nothing


def test_with_many_questions_it_comes_near_the_cheapest_schedule_of_that_risk(truth) -> None:
    table = drawn(np.random.default_rng(7), 6_000)
    plan = guarantee(table, SCHEDULES, 0.05, 0.1)
    cost = dict(zip(SCHEDULES, replay(table, SCHEDULES).cost, strict=True))
    least = min(cost[s] for s in SCHEDULES if truth[s] <= 0.05)
    assert truth[plan.schedule] <= 0.05
    assert least <= cost[plan.schedule] <= least + 0.06


def test_the_line_goes_from_safe_to_cheap_and_begins_milder_than_the_front() -> None:
    replayed = replay(drawn(np.random.default_rng(8), 60, seen=3), SCHEDULES)
    order = line_up(replayed)
    index = {s: i for i, s in enumerate(SCHEDULES)}
    cost, loss = ([values[index[s]] for s in order] for values in (replayed.cost, replayed.loss))
    assert cost == sorted(cost, reverse=True) and cost[0] == 1
    assert loss[-1] > 0 and loss == sorted(loss)
    front = [SCHEDULES[i] for i in replayed.front(-replayed.loss)][::-1]
    assert order[-len(front) :] == front
    before = order[: -len(front) + 1]
    assert len(before) > 2
    for milder, bolder in pairwise(before):
        assert milder != bolder and all(a <= b for a, b in zip(milder, bolder, strict=True))


def test_too_few_questions_drop_nothing_and_say_how_many_are_needed() -> None:
    table = drawn(np.random.default_rng(9), 60)
    plan = guarantee(table, SCHEDULES, 0.05, 0.1)
    assert plan.schedule == (0.0, 0.0) and plan.p is None and plan.questions < 45
    assert (
        f"{plan.questions} answerable questions are held back and 45 needed; nothing is dropped"
        in plan.statement()
    )


def test_where_every_schedule_fails_nothing_is_dropped() -> None:
    plan = guarantee(drawn(np.random.default_rng(10), 400), [(0.8, 0.6), (0.8, 0.8)], 0.02, 0.05)
    assert plan.schedule == (0.0, 0.0) and plan.rejected == 0
    assert "the safest schedule that drops something failed on" in plan.statement()
    assert "no schedule drops anything; nothing is dropped" in replace(plan, lined_up=0).statement()


def test_a_guarantee_is_stated_with_its_evidence() -> None:
    plan = guarantee(drawn(np.random.default_rng(11), 1_000), SCHEDULES, 0.05, 0.1)
    assert plan.p is not None and plan.p <= 0.1 and plan.rejected >= 1
    assert plan.p == binomial_tail(plan.lost, plan.questions, 0.05)
    said = plan.statement()
    assert said.startswith(
        "P(an answerable question loses every correct candidate) ≤ 0.05 with confidence 0.9 ("
    )
    assert f"{plan.lost} of {plan.questions} held-back questions lost" in said


def test_the_seed_decides_the_halves_and_nothing_else_does() -> None:
    table = drawn(np.random.default_rng(12), 300)
    assert guarantee(table, SCHEDULES, seed=1) == guarantee(table, SCHEDULES[::-1], seed=1)
    questions = {guarantee(table, SCHEDULES, seed=seed).questions for seed in range(5)}
    assert len(questions) > 1


@pytest.mark.parametrize(
    ("delta", "epsilon"), [(0, 0.1), (1, 0.1), (0.05, 0), (0.05, 1.5), (float("nan"), 0.1)]
)
def test_probabilities_outside_0_and_1_are_refused(delta: float, epsilon: float) -> None:
    with pytest.raises(ValueError, match="give a probability above 0 and below 1"):
        guarantee(drawn(np.random.default_rng(0), 3), SCHEDULES, delta, epsilon)
