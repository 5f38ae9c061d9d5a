"""Paragraphs of many pages of a domain, as transforms over their keys (indexing/documents/boilerplate.py).

They are counted on the documents that stay: a page that came twice is one page. The counts of a paragraph meet in one bucket,
24 bytes for each file that has it; paragraphs of enough pages go on to the buckets of domains, where the number of the
domain's pages decides. Each file receives those of its own paragraphs that go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection

from answermill.indexing.documents.boilerplate import Counts, Hashes, Paragraphs, looked_up, paragraphs_of, totals
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.engine.unit_dofn import UnitDoFn, Units
from answermill.pipelines.runs.manifests.manifest import Part
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.steps.ingest.parse_and_cut import IngestStep, parsed_files
from answermill.pipelines.steps.ingest.repeated.near_duplicates import without_duplicates
from answermill.pipelines.steps.ingest.repeated.verdicts import Boilerplate, Duplicates, duplicate_rows

_BUCKETS = 64
_PARAGRAPHS, _DOMAINS = "paragraphs", "domains"

Bucket: TypeAlias = tuple[str, int]
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
    root: beam.Pipeline, gone: Sequence[PCollection[tuple[int, Duplicates]]], files: int, settings: Ingest, step: IngestStep
) -> PCollection[tuple[int, Boilerplate]]:
    """(unit, its boilerplate), from the documents that are none of those `gone`."""
    counted = (
        (*gone, root | "Files to count" >> Units(files) | "Count in all" >> beam.Map(without_duplicates))
        | "Duplicates or none" >> beam.Flatten()
        | "Duplicates by file" >> beam.GroupByKey()  # (unit, its Duplicates, and None)
        | "Count paragraphs" >> beam.ParDo(CountParagraphs(step))  # (bucket, OfFile or Domains)
    )
    often = (
        counted
        | "Paragraphs" >> beam.Filter(is_of, _PARAGRAPHS)
        | "Meet in paragraphs" >> beam.GroupByKey()  # (bucket, all its OfFile)
        | "On enough pages" >> beam.FlatMapTuple(on_enough_pages, settings.boilerplate_pages)  # (bucket of domains, OfFile)
    )
    shares: PCollection[tuple[int, Boilerplate]] = (
        (often, counted | "Domains" >> beam.Filter(is_of, _DOMAINS))
        | "Beside their domains" >> beam.Flatten()
        | "Meet in domains" >> beam.GroupByKey()  # (bucket, all its OfFile and Domains)
        | "On enough of them" >> beam.FlatMapTuple(on_enough_of_them, settings.boilerplate)  # (unit, Boilerplate)
    )
    return shares


class CountParagraphs(UnitDoFn):
    """A parsed file and its duplicates → the paragraphs and the domains of its other documents, in buckets."""

    skips_reported = False

    def __init__(self, step: IngestStep) -> None:
        super().__init__(step.name, step.work)
        self._work = step.work

    def work(self, unit: int, members: Iterable[Duplicates | None]) -> Iterator[tuple[Bucket, OfFile | Domains]]:
        parsed = parsed_files(self._work).read_one(unit)
        if parsed is None:
            return  # its file has failed for good: the step ends, or goes on without it
        lost = duplicate_rows(members)
        (documents,) = parsed.parts["documents"]
        paragraphs, domains, pages = paragraphs_of(self._pages(documents, lost))
        for number, inside in _buckets(paragraphs.keys):
            yield (_PARAGRAPHS, number), OfFile(unit, documents.sha256, _rows(paragraphs, inside))
        for number, inside in _buckets(domains):
            yield (_DOMAINS, number), Domains(domains[inside], pages[inside])

    def _pages(self, documents: Part, lost: set[int]) -> Iterator[tuple[str, str]]:
        """(domain, text) of the documents that stay and have a domain."""
        row = 0
        for batch in read_batches(self._work / "documents", documents, ["domain", "text"]):
            for domain, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if domain and row not in lost:
                    yield domain, text
                row += 1


def is_of(member: tuple[Bucket, OfFile | Domains], kind: str) -> bool:
    return member[0][0] == kind


def on_enough_pages(_bucket: Bucket, members: Iterable[OfFile], least: int = 10) -> Iterator[tuple[Bucket, OfFile]]:
    """The paragraphs of each file that stand on at least `least` pages of all files, and on how many, by their domains."""
    members = list(members)
    keys, counts = (np.concatenate([getattr(m.paragraphs, name) for m in members]) for name in ("keys", "pages"))
    each, pages = totals(keys, counts)
    for unit, part, paragraphs in members:
        of_all = paragraphs._replace(pages=looked_up(paragraphs.keys, each, pages))
        often = _rows(of_all, np.flatnonzero(of_all.pages >= least))
        for number, inside in _buckets(often.domains):
            yield (_DOMAINS, number), OfFile(unit, part, _rows(often, inside))


def on_enough_of_them(
    _bucket: Bucket, members: Iterable[OfFile | Domains], share: float = 0.3
) -> Iterator[tuple[int, Boilerplate]]:
    """The paragraphs of each file that stand on at least this share of the pages of their domain."""
    members = list(members)
    domains = [member for member in members if isinstance(member, Domains)]
    keys, counts = (np.concatenate(arrays) for arrays in zip(*domains, strict=True))
    each, pages = totals(keys, counts)
    for member in members:
        if isinstance(member, OfFile):
            of_domain = looked_up(member.paragraphs.domains, each, pages)
            goes = member.paragraphs.pages / of_domain >= share  # 3 of 30 are 0.1, but 30 × 0.1 is more than 3
            if goes.any():
                yield member.unit, Boilerplate(member.part, member.paragraphs.keys[goes])


def _buckets(keys: Hashes) -> Iterator[tuple[int, Counts]]:
    """Each bucket that has some of the keys, and which."""
    buckets = keys % _BUCKETS
    for number in np.unique(buckets):
        yield int(number), np.flatnonzero(buckets == number)


def _rows(paragraphs: Paragraphs, rows: Counts) -> Paragraphs:
    return Paragraphs(paragraphs.keys[rows], paragraphs.domains[rows], paragraphs.pages[rows])
