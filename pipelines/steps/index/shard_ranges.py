"""Ranges of the rows of passages/, a shard each."""

from __future__ import annotations

from dataclasses import dataclass


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
    """Rows cut into `shard_count` runs (0: as many as `per_shard` requires) whose sizes differ by one at
    most."""
    count = min(shard_count or -(-rows // per_shard), rows) or 1
    edges = [rows * n // count for n in range(count + 1)]
    return [ShardRange(n, count, edges[n], edges[n + 1]) for n in range(count)]
