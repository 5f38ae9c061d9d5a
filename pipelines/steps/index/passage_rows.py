"""Runs of the rows of passages/, and the passages that a hash chooses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from answermill.indexing.labels.hash_join import hashes
from answermill.pipelines.runs.parquet_folder import Folder, read_batches, read_rows
from answermill.schemas.corpus import Passage


def rows_between(passages: Folder[Passage], start: int, stop: int) -> Iterator[Passage]:
    """The rows [start, stop) of a folder; parts and row groups outside are not read."""
    first = 0
    for part in passages.parts:
        if first < stop and first + part.rows > start:
            yield from read_rows(
                passages.path, part, Passage, max(start - first, 0), min(stop - first, part.rows)
            )
        first += part.rows


def is_sampled(passage_id: str, share: float) -> bool:
    """True for this share of all passages, chosen by a hash of the id."""
    return int(hashes(pa.array([passage_id]))[0]) < round(share * 2**64)


def last_by_hash(passages: Folder[Passage], number: int) -> list[int]:
    """The rows, ascending, of the passages whose ids have the largest hashes: the last ones that a sample
    takes."""
    best, first = np.empty((0, 2), np.uint64), 0
    for part in passages.parts:
        for batch in read_batches(passages.path, part, ["passage_id"]):
            own = hashes(batch.column("passage_id"))
            rows = np.arange(first, first + len(own), dtype=np.uint64)
            best = np.concatenate([best, np.stack([own, rows], 1)])
            best = best[np.argsort(best[:, 0], kind="stable")[-number:]]
            first += len(own)
    return sorted(best[:, 1].astype(np.int64).tolist())
