"""Near duplicates in a run and of an earlier one, from their signatures
(indexing/documents/near_duplicates.py).

A document's signature is compared with those of an equal band in buckets: 16 times 144 bytes and its id. The
documents to remove, and those that are kept for them, are then collected in one place: some hundred bytes for
each document that is removed. No text is moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from answermill.indexing.documents import near_duplicates
from answermill.indexing.documents.near_duplicates import BANDS, Rank
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.engine.protocol import Engine, Pairs, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.steps.ingest.parse_and_cut import IngestStep, parsed_files
from answermill.pipelines.steps.ingest.repeated.earlier_documents import EarlierPartWork
from answermill.pipelines.steps.ingest.repeated.verdicts import (
    Duplicates,
    NearDuplicates,
    Rows,
    duplicate_rows,
)
from answermill.schemas.corpus import Document

_BUCKETS = 16  # of each band
_EARLIER = -1  # in place of a file's number
_ROWS = 512  # documents whose runs of words are in memory at once

BandBucket: TypeAlias = tuple[int, int]
"""(band, number below _BUCKETS)."""
Signed: TypeAlias = tuple[int, str, Rows, list[str], near_duplicates.Bands, near_duplicates.Signatures]
"""A bucket's documents of one file: (unit, SHA-256 of its part of documents, rows in it, their ids, hashes,
signatures)."""
Pair: TypeAlias = tuple[int, str, int, Rank, Rank]
"""(unit, SHA-256 of its part, row, its rank, the rank that is kept) of a document to remove."""


def earlier_run(job: Job, settings: Ingest, run: Path) -> Folder[Document] | None:
    """The documents of the run `since`. Raises JobError if that is this run (78), or has no documents."""
    if settings.since is None:
        return None
    earlier = job.path(settings.since)
    if earlier.resolve() == run.resolve():
        raise JobError(
            f"ingest.since: {earlier} is the run itself; name an earlier one, or give another --out", SETTINGS
        )
    return DOCUMENTS.open(earlier)


def near(
    engine: Engine,
    exact: Pairs,
    files: int,
    step: IngestStep,
    earlier: Folder[Document] | None,
    *,
    similarity: float,
) -> Pairs:
    """(unit, its near duplicates, each with the id that is kept), of the documents that are not among the
    `exact` ones.

    `similarity`: least share of runs of words that two near duplicates have in common."""
    # (bucket, Signed)
    signed = [engine.group("Sign documents", [exact], SignDocuments(step), every=Units.first(files))]
    if earlier is not None:
        parts = Units.first(len(earlier.parts))
        signed.append(engine.each("Sign earlier documents", parts, SignEarlier(step, earlier.path)))
    pairs = engine.group("Compare", signed, partial(compare, similarity=similarity))  # ("", Pairs)
    return engine.group("Who stays", [pairs], resolve)  # (unit, NearDuplicates)


class SignDocuments(UnitWork):
    """A parsed file and its exact duplicates → the signatures of its other documents, in buckets of each
    band."""

    skips_reported = False

    def __init__(self, step: IngestStep) -> None:
        super().__init__(step.name, step.work)
        self._work = step.work

    def work(self, unit: int, members: Iterable[Duplicates]) -> Iterator[tuple[BandBucket, Signed]]:
        parsed = parsed_files(self._work).read_one(unit)
        if parsed is None:
            return  # its file has failed for good: the step ends, or goes on without it
        duplicates = duplicate_rows(members)
        (documents,) = parsed.parts[DOCUMENTS.name]
        yield from sign(unit, DOCUMENTS.path(self._work), documents, duplicates)


class SignEarlier(EarlierPartWork):
    """A part of the earlier run's documents → their signatures, in buckets of each band."""

    def work(self, unit: int) -> Iterator[tuple[BandBucket, Signed]]:
        yield from sign(_EARLIER, self._documents, self.part(unit), set())


def sign(unit: int, folder: Path, part: Part, lost: set[int]) -> Iterator[tuple[BandBucket, Signed]]:
    """The signatures of a part's documents but the rows `lost`, by bucket."""
    first = 0

    for batch in read_batches(folder, part, ["doc_id", "text"], rows=_ROWS):
        rows = np.array([first + n for n in range(len(batch)) if first + n not in lost], np.int64)
        ids, texts = (
            [batch.column(name)[row - first].as_py() for row in rows.tolist()] for name in ("doc_id", "text")
        )
        first += len(batch)
        signatures, bands = near_duplicates.signatures(texts)

        for band in range(BANDS):
            buckets = bands[:, band] % _BUCKETS
            for bucket in np.unique(buckets):
                inside = np.flatnonzero(buckets == bucket)
                signed = (
                    unit,
                    part.sha256,
                    rows[inside],
                    [ids[n] for n in inside],
                    bands[inside, band],
                    signatures[inside],
                )
                yield (band, int(bucket)), signed


def compare(
    _bucket: BandBucket, members: Iterable[Signed], similarity: float = 0.8
) -> Iterator[tuple[str, list[Pair]]]:
    """The pairs of a bucket's documents that are near, if there are any; the order of its members does not
    matter."""
    places: list[tuple[int, str, int]] = []
    ranks: list[Rank] = []
    hashes, signatures = [], []
    for unit, part, rows, ids, bands, signed in members:
        places += [(unit, part, row) for row in rows.tolist()]
        ranks += [(int(unit != _EARLIER), doc_id) for doc_id in ids]
        hashes.append(bands)
        signatures.append(signed)
    pairs = near_duplicates.near_pairs(ranks, np.concatenate(hashes), np.concatenate(signatures), similarity)
    if listed := [(*places[removed], ranks[removed], ranks[kept]) for removed, kept in pairs]:
        yield "", listed


def resolve(_all: str, members: Iterable[list[Pair]]) -> Iterator[tuple[int, NearDuplicates]]:
    """Documents to remove from each file, with the id that is kept for each."""
    places: dict[Rank, tuple[int, str, int]] = {}
    pairs: list[tuple[Rank, Rank]] = []
    for unit, part, row, removed, kept in (pair for member in members for pair in member):
        places[removed] = (unit, part, row)
        pairs.append((removed, kept))

    file_rows: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
    for removed, (own, doc_id) in near_duplicates.kept(pairs).items():
        unit, part, row = places[removed]
        file_rows[unit, part].append((row, doc_id if own else f"{doc_id} of the earlier run"))

    for (unit, part), rows_and_ids in sorted(file_rows.items()):
        rows, kept_ids = zip(*sorted(rows_and_ids), strict=True)
        yield unit, NearDuplicates(part, np.array(rows, np.int64), kept_ids)
