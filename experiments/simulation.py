"""Simulated time that units of work take on many workers, some of which are slow and some of which die: drawn
by a seed, nothing is run.

Units are handed out as engines do it. Flink and Spark give each unit to a worker before any starts, by a
random key, as Beam's Reshuffle draws it; Dataflow gives the next unit to a worker that is free. When a worker
dies, Flink starts the job again: units that have reported are skipped, and all others lose what they have not
kept.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from answermill.schemas.arrays import Floats

HandingOut = Literal["by key", "when free"]


@dataclass(frozen=True)
class Workers:
    """A cluster. `slow`: the share of workers that take `slowness` times as long; `failures`: of one worker
    in an hour; `restart`: seconds from a failure until all workers work again."""

    number: int
    slow: float = 0.0
    slowness: float = 1.0
    failures: float = 0.0
    restart: float = 0.0
    handing_out: HandingOut = "by key"

    def paces(self, random: np.random.Generator) -> Floats:
        """Seconds of each worker that one second of a unit takes."""
        return np.where(random.random(self.number) < self.slow, self.slowness, 1.0)


@dataclass(frozen=True)
class Elapsed:
    """Seconds that a step took, seconds that its workers worked in all, and number of restarts of the job."""

    seconds: float
    worked: float
    restarts: int


def simulate(units: Floats, keeps: float, workers: Workers, random: np.random.Generator) -> Elapsed:
    """Do units that take these seconds each. `keeps`: an interrupted unit has kept its work up to the last
    multiple of these seconds; infinite if it starts again."""
    paces = workers.paces(random)
    rate = workers.failures * workers.number / 3600
    left = units[units > 0]
    now = worked = 0.0
    restarts = 0

    while len(left):
        starts, ends, paces_of_units = _hand_out(left, paces, workers.handing_out, random)
        failure = random.exponential(1 / rate) if rate else np.inf
        if failure >= ends.max():
            return Elapsed(now + float(ends.max()), worked + float((ends - starts).sum()), restarts)
        done = np.clip((failure - starts) / paces_of_units, 0, left)
        worked += float((done * paces_of_units).sum())
        kept = np.floor(done / keeps) * keeps if np.isfinite(keeps) else np.zeros_like(done)
        finished = ends <= failure
        left = (left - kept)[~finished]
        now += failure + workers.restart
        restarts += 1

    return Elapsed(now, worked, restarts)


def _hand_out(
    units: Floats, paces: Floats, handing_out: HandingOut, random: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Start and end of each unit, and its worker's pace."""
    if handing_out == "by key":
        worker = random.integers(len(paces), size=len(units))
        order = np.argsort(worker, kind="stable")
        taken = (units * paces[worker])[order]
        all_ends = np.cumsum(taken)
        first = np.searchsorted(worker[order], worker[order])  # of the same worker
        before = np.concatenate([[0.0], all_ends])[first]
        ends = np.empty_like(units)
        ends[order] = all_ends - before
        return ends - units * paces[worker], ends, paces[worker]

    free = [(0.0, number) for number in range(len(paces))]
    starts, chosen = np.empty_like(units), np.empty(len(units), np.int64)
    for n, seconds in enumerate(units):
        starts[n], chosen[n] = heapq.heappop(free)
        heapq.heappush(free, (starts[n] + seconds * paces[chosen[n]], int(chosen[n])))

    return starts, starts + units * paces[chosen], paces[chosen]
