"""Drop schedules: the rule, its cost, and the paper's numbers for both."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.rerankers.cascade.schedule import check, cost, dropped, grid, relative_cost, sizes

EXITS = (4, 6, 8, 10, 12)
TABLE_3 = {0.3: (-37.1, -36.7, 53.6), 0.4: (-44.9, -44.4, 18.3), 0.5: (-51.0, -51.0, -8.3)}
"""α → saved by the cascade without ⌊⌋, with it at k = 128, and by the sequential ranker without it; in
percent."""


def uniform(alpha: float) -> tuple[float, ...]:
    return (alpha,) * 4


def test_section_4_3_2_worked_example_by_its_own_rule() -> None:
    assert sizes(128, uniform(0.3)) == [128, 90, 63, 45, 32]


@pytest.mark.parametrize(
    ("k", "alpha", "leave"), [(100, 0.29, 29), (10, 0.7, 7), (1, 0.99, 0), (128, 0.3, 38), (0, 0.5, 0)]
)
def test_what_leaves_is_counted_in_decimal(k: int, alpha: float, leave: int) -> None:
    assert dropped(k, alpha) == leave


def test_binary_arithmetic_would_have_been_one_off() -> None:
    assert int(0.29 * 100) == 28


@given(st.integers(0, 10_000), st.decimals(0, Decimal("0.999"), places=3))
def test_at_least_one_stays_and_never_more_leave_than_the_share(k: int, alpha: Decimal) -> None:
    leave = dropped(k, float(alpha))
    assert leave == int(alpha * k)
    assert leave < max(k, 1)


@pytest.mark.parametrize("alpha", [1, -0.1, 1.5, float("nan")])
def test_a_share_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0 and below 1"):
        dropped(10, alpha)


@pytest.mark.parametrize("alpha", TABLE_3)
def test_table_3_costs_are_those_of_the_rule_without_rounding(alpha: float) -> None:
    continuous, at_128, sequential = TABLE_3[alpha]
    assert 100 * (relative_cost(EXITS, uniform(alpha), 12) - 1) == pytest.approx(continuous, abs=0.05)
    assert 100 * (relative_cost(EXITS, uniform(alpha), 12, k=128) - 1) == pytest.approx(at_128, abs=0.05)
    assert 100 * (relative_cost(EXITS, uniform(alpha), 12, shared=False) - 1) == pytest.approx(
        sequential, abs=0.05
    )


def test_the_cost_of_the_worked_example_added_up_by_hand() -> None:
    assert cost(128, EXITS, uniform(0.3)) == 4 * 128 + 2 * (90 + 63 + 45 + 32)
    assert cost(128, EXITS, uniform(0.3), shared=False) == 4 * 128 + 6 * 90 + 8 * 63 + 10 * 45 + 12 * 32
    assert cost(128, EXITS, uniform(0)) == 12 * 128
    assert cost(128, (12,), ()) == 12 * 128


def test_an_exit_that_drops_nothing_costs_nothing() -> None:
    assert cost(100, EXITS, (0.5, 0, 0.2, 0)) == cost(100, (4, 8, 12), (0.5, 0.2))


def test_the_rule_without_rounding_is_the_limit_of_many_candidates() -> None:
    many = relative_cost(EXITS, (0.1, 0.25, 0.6, 0.33), 12, k=10_000_000)
    assert many == pytest.approx(relative_cost(EXITS, (0.1, 0.25, 0.6, 0.33), 12), abs=1e-6)


def test_the_grid_of_figure_2_has_1296_schedules_between_44_and_85_percent() -> None:
    schedules = grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), EXITS)
    assert len(schedules) == len(set(schedules)) == 1296
    costs = [relative_cost(EXITS, schedule, 12) for schedule in schedules]
    assert (round(min(costs), 2), round(max(costs), 2)) == (0.44, 0.85)


@pytest.mark.parametrize(
    ("exits", "drops", "says"),
    [
        ((), (), r"exits = \[\]; give layers"),
        ((0, 4), (0.1,), "counted from 1"),
        ((4, 4, 8), (0.1, 0.1), "each deeper than the one before"),
        (
            (4, 8),
            (0.1, 0.1),
            r"2 drops \[0.1, 0.1\] for 2 exits \[4, 8\]; give one for each exit but the last: 1",
        ),
        ((4, 8, 12), (0.1, 1.0), "1.0 after layer 8 must be at least 0"),
        ((4, 8, 12), (-0.1, 0.5), "-0.1 after layer 4"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_values(
    exits: tuple[int, ...], drops: tuple[float, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        check(exits, drops)
