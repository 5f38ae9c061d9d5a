"""Documents that are the same as others: the keys by which they are found, and the verdicts on each file's
documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from answermill.indexing.documents import exact_duplicates
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.specs.ingest import DOCUMENTS, IngestCounts

BUCKETS = 64
Rows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
KeyBucket: TypeAlias = tuple[str, int]
"""(reason, number below BUCKETS)."""
PRECEDENCE = ("duplicate", "duplicate_id")
"""Reasons to refuse a document whose text or id occurred before; if both did, the first one is given."""


class FileKeys(NamedTuple):
    """The keys in one bucket of one file's documents."""

    unit: int
    part: str
    """SHA-256 of its part of documents."""
    rows: Rows
    """Rows in that part."""
    keys: Keys
    """[rows, 2]"""


class Duplicates(NamedTuple):
    """Documents of one file whose text, or whose id, occurred before in the input."""

    part: str
    """SHA-256 of the part of documents."""
    reason: str
    """One of PRECEDENCE."""
    rows: Rows
    """Rows in that part."""


class NearDuplicates(NamedTuple):
    """Documents of one file whose text is nearly that of a document that is kept."""

    part: str
    """SHA-256 of the part of documents."""
    rows: Rows
    """Rows in that part."""
    kept: Sequence[str]
    """[rows], the ids of the documents that are kept for them."""


class Boilerplate(NamedTuple):
    """Paragraphs of a part of documents that stand on many pages of their domain."""

    part: str
    """SHA-256 of the part."""
    keys: Keys
    """[paragraphs], in no order (indexing/documents/boilerplate.py)."""


FileVerdict: TypeAlias = Duplicates | NearDuplicates | Boilerplate
"""The outcome of one search over the whole input for one file."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Outcome of all searches over the whole input for one file's documents."""

    parts: frozenset[str]
    """SHA-256 of the parts of documents that were searched: one, but for a file without documents."""
    duplicates: Mapping[int, str]
    """Row of a document whose text or id occurred before → one of PRECEDENCE."""
    near_duplicates: Mapping[int, str]
    """Row of a document whose text is nearly that of another one → the id of that one, which is kept."""
    boilerplate: Set[int]
    """Keys of the paragraphs that are left out."""

    @classmethod
    def of(cls, members: Sequence[FileVerdict]) -> Verdicts:
        exact = [member for member in members if isinstance(member, Duplicates)]
        exact.sort(key=lambda member: PRECEDENCE.index(member.reason), reverse=True)  # the first is set last
        duplicates = {row: member.reason for member in exact for row in member.rows.tolist()}

        near, paragraphs = dict[int, str](), set[int]()
        for member in members:
            if isinstance(member, NearDuplicates):
                near.update(zip(member.rows.tolist(), member.kept, strict=True))
            elif isinstance(member, Boilerplate):
                paragraphs.update(member.keys.tolist())
        return cls(frozenset(member.part for member in members), duplicates, near, paragraphs)

    def concern(self, row: int) -> bool:
        """True if a document may be refused or changed."""
        return bool(self.boilerplate) or row in self.duplicates or row in self.near_duplicates


def document_keys(report: Report[IngestCounts], work: Path) -> Iterator[tuple[KeyBucket, FileKeys]]:
    """The keys of a parsed file's documents, by bucket.

    A document has two keys of 16 bytes, of its text and of its id; the bucket's reason is that of a reject if
    the key occurred before.
    """
    keys_of: dict[str, list[Keys]] = {"duplicate": [], "duplicate_id": []}
    (documents,) = report.parts[DOCUMENTS.name]
    for batch in read_batches(DOCUMENTS.path(work), documents, ["text_hash", "doc_id"], rows=8_192):
        keys_of["duplicate"].append(exact_duplicates.text_keys(batch.column("text_hash").to_pylist()))
        keys_of["duplicate_id"].append(exact_duplicates.id_keys(batch.column("doc_id").to_pylist()))
    for reason, arrays in keys_of.items():
        if arrays:
            keys = np.concatenate(arrays)  # [documents, 2]
            buckets = keys[:, 0] % BUCKETS
            for bucket in np.unique(buckets):
                rows = np.flatnonzero(buckets == bucket)
                yield (reason, int(bucket)), FileKeys(report.unit, documents.sha256, rows, keys[rows])


def find_duplicates(bucket: KeyBucket, members: Iterable[FileKeys]) -> Iterator[tuple[int, Duplicates]]:
    """The rows of each unit whose key occurred before, in an earlier unit or row; a unit without such rows is
    emitted too."""
    files = sorted((FileKeys(*member) for member in members), key=lambda file: file.unit)
    lost = exact_duplicates.losers([(file.unit, file.keys) for file in files])
    for file in files:
        yield file.unit, Duplicates(file.part, bucket[0], file.rows[lost[file.unit]])


def duplicate_rows(members: Iterable[Duplicates | NearDuplicates]) -> set[int]:
    """The rows of a file's documents that are among the duplicates found in it."""
    return {int(row) for member in members for row in member.rows}
