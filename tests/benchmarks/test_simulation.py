"""The simulation of a cluster: what can be worked out by hand, and what must not get lost."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.simulation import HandingOut, Workers, simulate


def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("handing_out", ["by key", "when free"])
def test_one_worker_takes_the_sum(handing_out: HandingOut) -> None:
    elapsed = simulate(np.array([3.0, 1.0, 2.0]), np.inf, Workers(1, handing_out=handing_out), random())
    assert (elapsed.seconds, elapsed.worked, elapsed.restarts) == (6.0, 6.0, 0)


def test_free_workers_take_the_next_unit() -> None:
    workers = Workers(2, handing_out="when free")
    assert simulate(np.array([4.0, 1.0, 1.0, 1.0, 1.0]), np.inf, workers, random()).seconds == 4.0


def test_random_keys_leave_some_workers_without_a_unit() -> None:
    """With as many units as workers about a third of the workers get none, and the fullest several."""
    elapsed = simulate(np.ones(100), np.inf, Workers(100), random())
    assert 3 <= elapsed.seconds <= 7 and elapsed.worked == pytest.approx(100)
    # Ten times the units, and more: 100 each.
    assert simulate(np.ones(10_000), np.inf, Workers(100), random()).seconds < 140


@pytest.mark.parametrize("handing_out", ["by key", "when free"])
def test_slow_workers_make_a_step_longer(handing_out: HandingOut) -> None:
    workers = Workers(10, slow=1.0, slowness=2.0, handing_out=handing_out)
    units = np.ones(100)
    assert simulate(units, np.inf, workers, random()).worked == pytest.approx(200)


def test_a_failure_costs_what_units_have_not_kept_and_nothing_that_has_reported() -> None:
    units, calm = np.full(64, 600.0), Workers(8)
    whole = simulate(units, np.inf, calm, random())
    stormy = Workers(8, failures=0.5, restart=30)
    lost = [simulate(units, np.inf, stormy, np.random.default_rng(seed)) for seed in range(20)]
    kept = [simulate(units, 10.0, stormy, np.random.default_rng(seed)) for seed in range(20)]
    assert sum(each.restarts for each in lost) > 20
    assert all(each.worked >= whole.worked - 1e-6 for each in lost)
    for each in kept:  # at most ten seconds of each worker and failure
        assert whole.worked - 1e-6 <= each.worked <= whole.worked + 8 * 10 * each.restarts + 1e-6
    assert sum(each.worked for each in kept) < sum(each.worked for each in lost)


def test_the_same_seed_gives_the_same_figures() -> None:
    workers = Workers(7, slow=0.2, slowness=3, failures=0.1, restart=5)
    assert simulate(np.full(50, 100.0), 10, workers, random()) == simulate(
        np.full(50, 100.0), 10, workers, random()
    )
