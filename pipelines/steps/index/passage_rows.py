"""Rows of passages/: runs of them, those of some places, and the passages that a hash chooses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from answermill.indexing.labels.hash_join import hashes
from answermill.pipelines.runs.manifests.manifest import checked_once
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.schemas.corpus import Passage

Places = npt.NDArray[np.int64]
"""Rows of passages/, from 0; ascending."""
_ROWS_AT_ONCE = 512


def rows_between(passages: Folder[Passage], start: int, stop: int) -> Iterator[Passage]:
    """The rows [start, stop) of a folder; parts and row groups outside are not read."""
    return rows_at(passages, np.arange(start, stop))


def rows_at(passages: Folder[Passage], places: Places) -> Iterator[Passage]:
    """The rows at these places."""
    for table in tables_at(passages, places):
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            yield from Passage.rows(batch)


def tables_at(passages: Folder[Passage], places: Places) -> Iterator[pa.Table]:
    """The rows at these places, a table for each row group that has some; others are not read."""
    first = 0
    for part in passages.parts:
        own = places[slice(*np.searchsorted(places, [first, first + part.rows]))] - first
        if len(own):
            with pq.ParquetFile(checked_once(passages.path, part), page_checksum_verification=True) as file:
                yield from _groups(file, own)
        first += part.rows


def _groups(file: pq.ParquetFile, places: Places) -> Iterator[pa.Table]:
    """The rows of a file at these places."""
    first = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        own = places[slice(*np.searchsorted(places, [first, first + rows]))] - first
        if len(own):
            table = file.read_row_group(group, use_threads=False)
            yield table if len(own) == rows else table.take(pa.array(own))
        first += rows


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
