"""A replayed schedule is what the cascade would do: held to a plain simulation, and its metrics to
`measure`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.evaluation.metrics import METRICS, Judged, Protocol, measure
from answermill.ranking.reranker import SCORE_DECIMALS
from answermill.ranking.rerankers.cascade.exits import ExitRows, ExitScores
from answermill.ranking.rerankers.cascade.prior import Prior
from answermill.ranking.rerankers.cascade.replay import Replayed, replay
from answermill.ranking.rerankers.cascade.schedule import Schedule, cost, dropped, grid

SHARES = (0.0, 0.1, 0.29, 0.3, 0.5, 0.6)


def random_table(
    generator: np.random.Generator,
    questions: int,
    most: int,
    exits: tuple[int, ...],
    correct: float = 0.2,
    levels: int = 0,
) -> ExitScores:
    """Lists of 1 to `most` candidates whose scores grow apart with depth; `levels`, if not 0, is how many
    differ."""
    labels, rows = [], []
    for n in generator.integers(1, most + 1, questions):
        label = (generator.random(n) < correct).astype(int)
        noise = np.cumsum(generator.normal(size=(n, len(exits)))[:, ::-1], axis=1)[:, ::-1]
        scores = label[:, None] * 2.0 + noise
        if levels:
            scores = generator.integers(0, levels, scores.shape) / 4 + generator.choice(
                [0, 1e-8], scores.shape
            )
            label = label * generator.integers(1, 3, n)  # graded, for nDCG
        labels.append(label.tolist())
        rows.append(ExitRows(scores, generator.integers(5, 60, n)))

    return ExitScores.of(exits, exits[-1] + 1, [f"q{n}" for n in range(questions)], labels, rows)


def with_prior(table: ExitScores, generator: np.random.Generator) -> ExitScores:
    """The same with two known scores, of few values, and other weights at each exit."""
    exits = len(table.exits) - 1
    weights = [{"exit": float(n), "a": 0.5 * (n + 1), "b": -1.0} for n in range(1, exits + 1)]
    columns = generator.integers(0, 4, (len(table.question), 3)) / 2.0
    return replace(table, prior=Prior.of(weights, exits), columns=columns)


def sums(table: ExitScores, number: int, alive: Sequence[int]) -> list[float]:
    """By what the candidates `alive` of one question leave at an exit: with a prior its weighted sum of z."""
    own = [float(table.scores[i, number]) for i in alive]
    if table.prior is None or table.columns is None:
        return own
    weighted = table.prior.sums[number]
    total = np.zeros(len(alive))
    for place, (name, weight) in enumerate(zip(weighted.names, weighted.weights, strict=True)):
        values = np.array(own if name == "exit" else [table.columns[i, place] for i in alive])
        if len(alive) and values.max() > values.min():
            total += weight * (values - values.mean()) / values.std()
    return total.tolist()


def simulated(table: ExitScores, schedule: Schedule, protocol: Protocol) -> dict[str, float]:
    """The same in plain Python, one question and one candidate after the other."""
    layers = [b - a for a, b in zip((0, *table.exits), table.exits, strict=False)]
    spent = spent_tokens = lost = answerable = 0
    lists = []

    for q in range(len(table.question_ids)):
        every = [i for i in range(len(table.question)) if table.question[i] == q]
        alive = sorted(every, key=lambda i: table.position[i])
        for number, run in enumerate(layers):
            spent += run * len(alive)
            spent_tokens += run * sum(int(table.tokens[i]) for i in alive)
            if number < len(schedule):
                scores = {
                    i: round(decisive, SCORE_DECIMALS)
                    for i, decisive in zip(alive, sums(table, number, alive), strict=True)
                }
                ranked = sorted(alive, key=lambda i: (-scores[i], table.position[i]))
                stay = set(ranked[: len(alive) - dropped(len(alive), schedule[number])])
                alive = [i for i in alive if i in stay]

        lowest = min((table.scores[i, -1] for i in alive), default=0) - 1
        final = [table.scores[i, -1] if i in alive else lowest for i in every]
        lists.append((final, [int(table.label[i]) for i in every]))
        answerable += any(table.label[i] > 0 for i in every)
        lost += any(table.label[i] > 0 for i in every) and not any(table.label[i] > 0 for i in alive)

    judged = Judged.of(lists)
    kept = judged.kept(protocol)
    means = {metric: float(values.expected[kept].mean()) for metric, values in measure(judged).items()}
    whole = table.depth * len(table.question), table.depth * int(table.tokens.sum())
    return {
        "cost": spent / whole[0],
        "token_cost": spent_tokens / whole[1],
        "lost": lost,
        "answerable": answerable,
        **means,
    }


def row(replayed: Replayed, number: int) -> dict[str, float]:
    return {
        "cost": replayed.cost[number],
        "token_cost": replayed.token_cost[number],
        "lost": replayed.lost[number],
        "answerable": replayed.answerable,
        **{metric: values[number] for metric, values in replayed.metrics.items()},
    }


def the_protocol_keeps_one(table: ExitScores, protocol: Protocol) -> bool:
    judged = Judged(
        len(table.question_ids), table.question, table.scores[:, -1], table.label, table.label > -9
    )
    return bool(judged.kept(protocol).any())


@given(
    seed=st.integers(0, 2**32 - 1),
    questions=st.integers(1, 5),
    most=st.integers(1, 14),
    exits=st.sampled_from([(1, 2), (4, 6, 8, 10, 12), (2, 5, 6)]),
    levels=st.sampled_from([0, 1, 2, 4]),
    protocol=st.sampled_from(["raw", "answerable", "clean"]),
    correct=st.sampled_from([0.1, 0.5, 0.9]),
    prior=st.booleans(),
    data=st.data(),
)
def test_a_replay_is_what_the_cascade_would_do(
    seed, questions, most, exits, levels, protocol, correct, prior, data
) -> None:
    table = random_table(np.random.default_rng(seed), questions, most, exits, correct, levels)
    if prior:
        table = with_prior(table, np.random.default_rng(seed))
    if not the_protocol_keeps_one(table, protocol):
        with pytest.raises(ValueError, match="keeps no question, of"):
            replay(table, [(0.0,) * (len(exits) - 1)], protocol)
        return
    schedule = st.tuples(*[st.sampled_from(SHARES)] * (len(exits) - 1))
    schedules = data.draw(st.lists(schedule, min_size=1, max_size=4))
    replayed = replay(table, schedules, protocol)
    for number, each in enumerate(schedules):
        assert row(replayed, number) == pytest.approx(simulated(table, each, protocol), abs=1e-9)


def test_the_case_is_not_trivial_things_get_lost_and_ties_straddle() -> None:
    table = random_table(np.random.default_rng(1), 40, 14, (4, 6, 8, 10, 12), levels=4)
    schedules = grid((0.0, 0.3, 0.6), table.exits)
    replayed = replay(table, schedules)
    assert len({round(v, 6) for v in replayed.metrics["MAP"]}) > 40
    assert replayed.lost.min() == 0 < replayed.lost.max()
    for number in (0, 17, 40, 80):
        assert row(replayed, number) == pytest.approx(
            simulated(table, schedules[number], "answerable"), abs=1e-9
        )


def test_a_prior_decides_who_leaves_and_halves_keep_it() -> None:
    table = random_table(np.random.default_rng(1), 40, 14, (4, 6, 8), levels=4)
    schedules = grid((0.0, 0.3, 0.6), table.exits)
    known = with_prior(table, np.random.default_rng(2))
    assert (
        replay(table, schedules).metrics["MAP"].tolist() != replay(known, schedules).metrics["MAP"].tolist()
    )

    for half in known.halves():
        for number in (3, 8):
            assert row(replay(half, schedules), number) == pytest.approx(
                simulated(half, schedules[number], "answerable"), abs=1e-9
            )

    with pytest.raises(ValueError, match="a prior of a, b, exit, and columns that are not those of"):
        replace(known, columns=None)


def one_list(*scores: Sequence[float], labels: Sequence[int]) -> ExitScores:
    """One question; `scores` per exit."""
    rows = ExitRows(np.array(scores, np.float64).T, np.full(len(labels), 10))
    return ExitScores.of((2, 4), 4, ["q"], [labels], [rows])


def test_of_equal_scores_the_later_one_leaves() -> None:
    for correct, lost in ((1, 0), (2, 1)):
        labels = [int(n == correct) for n in range(3)]
        replayed = replay(one_list((2, 1, 1), (0, 0, 0), labels=labels), [(0.4,)])
        assert replayed.lost[0] == lost


def test_scores_that_differ_beyond_the_rounding_are_equal() -> None:
    replayed = replay(one_list((2, 1, 1 + 1e-7), (0, 0, 0), labels=[0, 0, 1]), [(0.4,)])
    assert replayed.lost[0] == 1


def test_what_left_comes_last_and_tied() -> None:
    table = one_list((4, 3, 1, 2), (0.1, 0.2, 0.9, 0.8), labels=[0, 0, 1, 0])
    kept, gone = replay(table, [(0.0,)]), replay(table, [(0.5,)])
    assert kept.metrics["P@1"][0] == 1 and gone.metrics["P@1"][0] == 0
    # Third or fourth, behind both that stayed.
    assert gone.metrics["MRR"][0] == pytest.approx((1 / 3 + 1 / 4) / 2)


def test_an_exit_with_share_0_is_no_exit() -> None:
    table = random_table(np.random.default_rng(2), 30, 12, (4, 6, 8, 10, 12))

    columns = [0, 2, 4]
    fewer = ExitScores(
        (4, 8, 12),
        13,
        table.question_ids,
        table.question,
        table.label,
        table.position,
        table.tokens,
        table.scores[:, columns],
    )
    assert row(replay(table, [(0.4, 0.0, 0.3, 0.0)]), 0) == row(replay(fewer, [(0.4, 0.3)]), 0)


def test_costs_are_those_of_the_schedule_s_own_arithmetic() -> None:
    table = random_table(np.random.default_rng(3), 30, 40, (4, 6, 8, 10, 12))
    drops = (0.3, 0.1, 0.5, 0.2)
    counts = np.bincount(table.question)
    expected = sum(cost(int(k), table.exits, drops) for k in counts) / (13 * counts.sum())
    assert replay(table, [drops]).cost[0] == pytest.approx(expected)


def test_the_order_of_schedules_and_questions_changes_nothing() -> None:
    table = random_table(np.random.default_rng(4), 30, 12, (4, 6, 8))
    schedules = grid((0.1, 0.3, 0.6), table.exits)
    there, back = replay(table, schedules), replay(table, [*schedules[::-1], schedules[0]])
    for number, schedule in enumerate(schedules):
        assert row(there, number) == row(back, len(schedules) - 1 - number), schedule
    assert row(back, len(schedules)) == row(there, 0)


def test_the_halves_are_told_by_the_ids_alone_and_are_a_partition() -> None:
    table = random_table(np.random.default_rng(5), 200, 6, (4, 6, 8))
    first, second = table.halves(seed=3)
    assert sorted(first.question_ids + second.question_ids) == sorted(table.question_ids)
    assert 70 < len(first.question_ids) < 130
    again = table.pick(np.arange(200) >= 50).halves(seed=3)[0]
    assert set(again.question_ids) == set(first.question_ids) - {f"q{n}" for n in range(50)}
    assert first.question_ids != table.halves(seed=4)[0].question_ids
    costs = [replay(part, [(0.3, 0.3)]).cost[0] * len(part.question) for part in (first, second)]
    assert sum(costs) / len(table.question) == pytest.approx(replay(table, [(0.3, 0.3)]).cost[0])


def choices(cost: Sequence[float], value: Sequence[float]) -> Replayed:
    schedules = tuple((round(0.1 * n, 1),) for n in range(len(cost)))
    zeros = np.zeros(len(cost))
    values = np.array(value, np.float64)
    return Replayed(
        schedules, np.array(cost), zeros, dict.fromkeys(METRICS, values), zeros.astype(np.int64), 1
    )


def test_the_best_schedule_under_a_budget_and_its_ties() -> None:
    replayed = choices([1.0, 0.8, 0.6, 0.6, 0.5], [0.9, 0.85, 0.8, 0.8, 0.8])
    assert replayed.best_under(1.0, "MAP") == 0
    assert replayed.best_under(0.8, "MAP") == 1
    assert replayed.best_under(0.7, "MAP") == 4  # as good as 2 and 3, and cheaper
    assert choices([0.6, 0.6], [0.8, 0.8]).best_under(0.6, "P@1") == 0
    with pytest.raises(ValueError, match=r"no schedule costs at most 0.4; the cheapest of 5 costs 0.500"):
        replayed.best_under(0.4, "MAP")


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    replayed = choices([float(cost) for cost, _ in points], [float(value) for _, value in points])
    front = [points[i] for i in replayed.front(replayed.metrics["MAP"])]
    assert front == sorted(front) and len(set(front)) == len(front)
    beaten = {(c, v) for c, v in points if any(a <= c and b >= v and (a, b) != (c, v) for a, b in points)}
    assert set(front) == set(points) - beaten


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"depth": 3}, "go beyond the model's 3 layers"),
        ({"exits": (4, 2)}, "each deeper than the one before"),
        ({"exits": (1, 2, 4)}, r"scores of shape \(2, 2\) for 2 candidates and 3 exits"),
        ({"question": np.array([1, 0])}, "stand together"),
        (
            {"scores": np.array([[0.0, 1.0], [np.nan, 0.0]])},
            "score nan after layer 2 for candidate 1 of question b",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    ones = np.array([0, 1])
    fields = {
        "exits": (2, 4),
        "depth": 4,
        "question_ids": ("a", "b"),
        "question": ones,
        "label": ones,
        "position": ones,
    }
    with pytest.raises(ValueError, match=says):
        ExitScores(**{**fields, "tokens": ones, "scores": np.zeros((2, 2)), **change})


def test_a_schedule_that_does_not_suit_the_exits_is_refused() -> None:
    with pytest.raises(ValueError, match="2 drops"):
        replay(one_list((1, 2), (1, 2), labels=[0, 1]), [(0.1, 0.2)])
