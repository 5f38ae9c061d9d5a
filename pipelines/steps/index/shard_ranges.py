"""Ranges of the rows of passages/, a shard each."""

from __future__ import annotations

from dataclasses import dataclass

from answermill.pipelines.config.job_file import Job

SMALLEST, LARGEST = 20_000, 250_000
"""Passages of a shard where nothing else is said: about ten minutes of a core's encoding, and two hours."""
ENOUGH = 16
"""Shards that are as small as SMALLEST; where there would be more of them, they grow to LARGEST instead."""


@dataclass(frozen=True, slots=True)
class ShardRange:
    """One unit of work: shard `number` of `shards`, counted from 0; the rows [start, stop) of passages/."""

    number: int
    shards: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.number:05d}-of-{self.shards:05d}"


def ranges(rows: int, shard_count: int, per_shard: int) -> list[ShardRange]:
    """Rows cut into `shard_count` runs (0: as many as `per_shard` requires, or `usual_count` of them where
    that is 0 as well) whose sizes differ by one at most."""
    wanted = shard_count or (-(-rows // per_shard) if per_shard else usual_count(rows))
    count = min(wanted, rows) or 1
    edges = [rows * n // count for n in range(count + 1)]
    return [ShardRange(n, count, edges[n], edges[n + 1]) for n in range(count)]


def shards_of(job: Job, rows: int) -> list[ShardRange]:
    """The shards that a job cuts this number of rows into."""
    return ranges(rows, job.index.shards, job.index.passages_per_shard)


def usual_count(rows: int) -> int:
    """Number of shards for this number of passages. It depends on nothing else, such as this machine's cores,
    so another machine goes on with the same shards.

    Every shard costs a question one more search; but a shard is built by one process, and until there
    are ENOUGH for the cores of a machine, smaller ones share the work better.

    >>> [usual_count(rows) for rows in (0, 20_000, 100_000, 1_000_000, 10_000_000)]
    [0, 1, 5, 16, 40]
    """
    return max(min(-(-rows // SMALLEST), ENOUGH), -(-rows // LARGEST))
