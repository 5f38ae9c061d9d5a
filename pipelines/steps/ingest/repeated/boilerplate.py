"""Paragraphs of many pages of a domain, from their keys (indexing/documents/boilerplate.py).

They are counted on the documents that stay: a repeated page is one page. The counts of a paragraph are added
up in one bucket, 24 bytes for each file that has it; paragraphs of enough pages are passed on to the buckets
of domains, where the number of the domain's pages decides. Each file receives those of its own paragraphs
that are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from answermill.indexing.documents.boilerplate import (
    Counts,
    Hashes,
    Paragraphs,
    looked_up,
    paragraphs_of,
    totals,
)
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.engine.protocol import Engine, Pairs, Units
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.steps.ingest.parse_and_cut import IngestStep, parsed_files
from answermill.pipelines.steps.ingest.repeated.verdicts import (
    Boilerplate,
    Duplicates,
    NearDuplicates,
    duplicate_rows,
)

_BUCKETS = 64
_PARAGRAPHS, _DOMAINS = "paragraphs", "domains"

ParagraphBucket: TypeAlias = tuple[str, int]
"""(_PARAGRAPHS or _DOMAINS, number below _BUCKETS)."""


class FileParagraphs(NamedTuple):
    """Paragraphs of a file that are in one bucket."""

    unit: int
    part: str
    """SHA-256 of the file's part of documents."""
    paragraphs: Paragraphs


class Domains(NamedTuple):
    """Domains of a file that are in one bucket, and the pages of each in the file."""

    keys: Hashes
    pages: Counts


def boilerplate(
    engine: Engine, gone: Sequence[Pairs], files: int, settings: Ingest, step: IngestStep
) -> Pairs:
    """(unit, its boilerplate), from the documents that are not among those `gone`."""
    # (bucket of paragraphs, FileParagraphs) or (bucket of domains, Domains)
    counted = engine.group("Count paragraphs", gone, CountParagraphs(step), every=Units.first(files))
    # (bucket of domains, FileParagraphs or Domains)
    frequent = engine.group(
        "On enough pages", [counted], partial(on_enough_pages, least=settings.boilerplate_pages)
    )
    on_enough = partial(on_enough_of_them, share=settings.boilerplate)
    return engine.group("On enough of them", [frequent], on_enough)


class CountParagraphs(UnitWork):
    """A parsed file and its duplicates → the paragraphs and the domains of its other documents, in
    buckets."""

    skips_reported = False

    def __init__(self, step: IngestStep) -> None:
        super().__init__(step.name, step.work)
        self._work = step.work

    def work(
        self, unit: int, members: Iterable[Duplicates | NearDuplicates]
    ) -> Iterator[tuple[ParagraphBucket, FileParagraphs | Domains]]:
        parsed = parsed_files(self._work).read_one(unit)
        if parsed is None:
            return  # its file has failed for good: the step ends, or goes on without it
        duplicates = duplicate_rows(members)
        (documents,) = parsed.parts[DOCUMENTS.name]
        paragraphs, domains, pages = paragraphs_of(self._pages(documents, duplicates))
        for number, inside in _buckets(paragraphs.keys):
            yield (_PARAGRAPHS, number), FileParagraphs(unit, documents.sha256, _rows(paragraphs, inside))
        for number, inside in _buckets(domains):
            yield (_DOMAINS, number), Domains(domains[inside], pages[inside])

    def _pages(self, documents: Part, lost: set[int]) -> Iterator[tuple[str, str]]:
        """(domain, text) of the documents that stay and have a domain."""
        row = 0
        for batch in read_batches(DOCUMENTS.path(self._work), documents, ["domain", "text"]):
            for domain, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if domain and row not in lost:
                    yield domain, text
                row += 1


def on_enough_pages(
    bucket: ParagraphBucket, members: Iterable[FileParagraphs | Domains], least: int = 10
) -> Iterator[tuple[ParagraphBucket, FileParagraphs | Domains]]:
    """The paragraphs of each file that are on at least `least` pages of all files, with the number of pages,
    by their domains. Domains stay in their bucket."""
    if bucket[0] == _DOMAINS:
        yield from ((bucket, member) for member in members)
        return

    files = [member for member in members if isinstance(member, FileParagraphs)]
    keys, counts = (
        np.concatenate([getattr(file.paragraphs, name) for file in files]) for name in ("keys", "pages")
    )
    distinct, pages = totals(keys, counts)

    for unit, part, paragraphs in files:
        summed = paragraphs._replace(pages=looked_up(paragraphs.keys, distinct, pages))
        frequent = _rows(summed, np.flatnonzero(summed.pages >= least))
        for number, inside in _buckets(frequent.domains):
            yield (_DOMAINS, number), FileParagraphs(unit, part, _rows(frequent, inside))


def on_enough_of_them(
    _bucket: ParagraphBucket, members: Iterable[FileParagraphs | Domains], share: float = 0.3
) -> Iterator[tuple[int, Boilerplate]]:
    """The paragraphs of each file that are on at least this share of the pages of their domain."""
    members = list(members)
    domains = [member for member in members if isinstance(member, Domains)]
    keys, counts = (np.concatenate(arrays) for arrays in zip(*domains, strict=True))
    distinct, pages = totals(keys, counts)
    for member in members:
        if isinstance(member, FileParagraphs):
            domain_pages = looked_up(member.paragraphs.domains, distinct, pages)
            # 3 of 30 are 0.1, but 30 × 0.1 is more than 3.
            is_boilerplate = member.paragraphs.pages / domain_pages >= share
            if is_boilerplate.any():
                yield member.unit, Boilerplate(member.part, member.paragraphs.keys[is_boilerplate])


def _buckets(keys: Hashes) -> Iterator[tuple[int, Counts]]:
    """(bucket, positions of its keys) of each bucket that has some."""
    buckets = keys % _BUCKETS
    for number in np.unique(buckets):
        yield int(number), np.flatnonzero(buckets == number)


def _rows(paragraphs: Paragraphs, rows: Counts) -> Paragraphs:
    return Paragraphs(paragraphs.keys[rows], paragraphs.domains[rows], paragraphs.pages[rows])
