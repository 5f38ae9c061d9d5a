"""Paragraphs of many pages of a domain, from their keys (indexing/documents/boilerplate.py).

They are counted on the documents that stay: a page that came twice is one page. The counts of a paragraph
meet in one bucket, 24 bytes for each file that has it; paragraphs of enough pages go on to the buckets of
domains, where the number of the domain's pages decides. Each file receives those of its own paragraphs that
go.
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
"""(what its keys are of, number below _BUCKETS)."""


class OfFile(NamedTuple):
    """Paragraphs of a file that are in one bucket."""

    unit: int
    part: str
    """SHA-256 of the file's part of documents."""
    paragraphs: Paragraphs


class Domains(NamedTuple):
    """Domains of a file that are in one bucket, and how many pages each has in it."""

    keys: Hashes
    pages: Counts


def boilerplate(
    engine: Engine, gone: Sequence[Pairs], files: int, settings: Ingest, step: IngestStep
) -> Pairs:
    """(unit, its boilerplate), from the documents that are none of those `gone`."""
    # (bucket of paragraphs, OfFile) or (bucket of domains, Domains)
    counted = engine.group("Count paragraphs", gone, CountParagraphs(step), every=Units.first(files))
    # (bucket of domains, OfFile or Domains)
    often = engine.group(
        "On enough pages", [counted], partial(on_enough_pages, least=settings.boilerplate_pages)
    )
    return engine.group("On enough of them", [often], partial(on_enough_of_them, share=settings.boilerplate))


class CountParagraphs(UnitWork):
    """A parsed file and its duplicates → the paragraphs and the domains of its other documents, in
    buckets."""

    skips_reported = False

    def __init__(self, step: IngestStep) -> None:
        super().__init__(step.name, step.work)
        self._work = step.work

    def work(
        self, unit: int, members: Iterable[Duplicates | NearDuplicates]
    ) -> Iterator[tuple[ParagraphBucket, OfFile | Domains]]:
        parsed = parsed_files(self._work).read_one(unit)
        if parsed is None:
            return  # its file has failed for good: the step ends, or goes on without it
        lost = duplicate_rows(members)
        (documents,) = parsed.parts[DOCUMENTS.name]
        paragraphs, domains, pages = paragraphs_of(self._pages(documents, lost))
        for number, inside in _buckets(paragraphs.keys):
            yield (_PARAGRAPHS, number), OfFile(unit, documents.sha256, _rows(paragraphs, inside))
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
    bucket: ParagraphBucket, members: Iterable[OfFile | Domains], least: int = 10
) -> Iterator[tuple[ParagraphBucket, OfFile | Domains]]:
    """The paragraphs of each file that stand on at least `least` pages of all files, and on how many, by
    their domains. Domains stay in their bucket."""
    if bucket[0] == _DOMAINS:
        yield from ((bucket, member) for member in members)
        return

    files = [member for member in members if isinstance(member, OfFile)]
    keys, counts = (
        np.concatenate([getattr(file.paragraphs, name) for file in files]) for name in ("keys", "pages")
    )
    each, pages = totals(keys, counts)

    for unit, part, paragraphs in files:
        of_all = paragraphs._replace(pages=looked_up(paragraphs.keys, each, pages))
        often = _rows(of_all, np.flatnonzero(of_all.pages >= least))
        for number, inside in _buckets(often.domains):
            yield (_DOMAINS, number), OfFile(unit, part, _rows(often, inside))


def on_enough_of_them(
    _bucket: ParagraphBucket, members: Iterable[OfFile | Domains], share: float = 0.3
) -> Iterator[tuple[int, Boilerplate]]:
    """The paragraphs of each file that stand on at least this share of the pages of their domain."""
    members = list(members)
    domains = [member for member in members if isinstance(member, Domains)]
    keys, counts = (np.concatenate(arrays) for arrays in zip(*domains, strict=True))
    each, pages = totals(keys, counts)
    for member in members:
        if isinstance(member, OfFile):
            of_domain = looked_up(member.paragraphs.domains, each, pages)
            # 3 of 30 are 0.1, but 30 × 0.1 is more than 3.
            goes = member.paragraphs.pages / of_domain >= share
            if goes.any():
                yield member.unit, Boilerplate(member.part, member.paragraphs.keys[goes])


def _buckets(keys: Hashes) -> Iterator[tuple[int, Counts]]:
    """Each bucket that has some of the keys, and which."""
    buckets = keys % _BUCKETS
    for number in np.unique(buckets):
        yield int(number), np.flatnonzero(buckets == number)


def _rows(paragraphs: Paragraphs, rows: Counts) -> Paragraphs:
    return Paragraphs(paragraphs.keys[rows], paragraphs.domains[rows], paragraphs.pages[rows])
