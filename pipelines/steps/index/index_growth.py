"""The index step of a whole job, as `answermill plan` foresees it; with `index.since`, what is taken over.

The plan runs the steps on a sample, without the earlier run, so that its rates are those of new passages. The
share of the sample's passages whose texts the earlier run has stands for that of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from answermill.indexing.shards.shard_files import PASSAGES as FILE
from answermill.pipelines.config.growth import Cost, WholeStep
from answermill.pipelines.runs.manifests.manifest import fetch_shard
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.steps.index.delta import LEAST, new_shards
from answermill.pipelines.steps.index.shard_ranges import shards_of
from answermill.pipelines.steps.since.earlier_vectors import Keys, keys_of_batch
from answermill.schemas.corpus import Passage

ROWS_READ = 1_000_000
"""Passages of the earlier run that are compared; of more, some shards stand for all."""
_TEXTS = ["title", "text"]


@dataclass(frozen=True, slots=True)
class EarlierIndex:
    """An earlier run, by what a sample says of it."""

    passages: int
    shards: int
    known: float
    """Share of the sample's passages whose texts it has."""
    is_same: bool
    """True if its settings are the job's, so that whole shards may be taken over, and not vectors alone."""

    @classmethod
    def of(cls, former: Folder[Passage], passages: Folder[Passage], is_same: bool) -> EarlierIndex:
        """The earlier run with these shards, by the passages of a sample."""
        batches = (b for part in passages.parts for b in read_batches(passages.path, part, _TEXTS))
        own = _joined([keys_of_batch(batch) for batch in batches])
        is_known, read = np.zeros(len(own), np.bool_), 0
        for part in sorted(former.parts, key=lambda part: part.sha256):
            if read >= ROWS_READ:
                break
            folder = fetch_shard(former.path / part.file, part.sha256, FILE.__eq__)
            with pq.ParquetFile(folder / FILE, page_checksum_verification=True) as file:
                keys = _joined([keys_of_batch(batch) for batch in file.iter_batches(columns=_TEXTS)])
            is_known |= np.isin(own, keys)
            read += part.rows
        share = float(is_known.mean()) * former.rows / max(1, read) if len(own) else 0.0
        return cls(former.rows, len(former.parts), min(1.0, share), is_same)


def _joined(keys: list[Keys]) -> Keys:
    """[texts]: the first half of each key."""
    return np.concatenate([np.empty(0, np.uint64), *(own[:, 0] for own in keys)])


def grow(step: WholeStep) -> None:
    """Set a unit and a part for each shard; where an earlier run has passages, count what is taken over, and
    the time of what is new."""
    passages, former = step.before[PASSAGES.name], step.former
    step.units = step.parts = len(shards_of(step.job, round(passages)))
    if isinstance(former, EarlierIndex) and former.known:
        known = former.known * passages
        _take_over(step, former, known, passages - known)
    step.counts[SHARDS.name] = step.parts


def _take_over(step: WholeStep, former: EarlierIndex, known: float, new: float) -> None:
    counts, passages = step.sample.counts(INDEX), known + new
    if former.is_same and known >= LEAST * former.passages:
        step.counts |= {"taken_over": known, "tombstones": max(0.0, former.passages - known)}
        step.costs = {"": Cost(1.0, counts.passages, new)}
        added = new_shards(step.job, round(passages), round(new), former.shards)
        step.units = step.parts = former.shards + len(added)
        return
    dense = counts.dense_ms / 1000
    step.counts["vectors_taken_over"] = known
    step.costs = {
        "": Cost(counts.seconds - dense, counts.passages, passages),
        "encoding": Cost(dense, counts.passages, new),
    }
