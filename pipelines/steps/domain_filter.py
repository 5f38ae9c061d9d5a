"""Domains: before ingest, the crawl's pages in; the domains whose pages are to be kept out.

Where the job asks for the most popular ones, a pass of its own counts pages per registered domain: it reads records and URLs,
extracts nothing, and a unit is a file, with a report of its own, so that a pass that was killed goes on.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.transforms.combiners import Top

from indexing.crawl.input_formats import read_pages
from indexing.documents.domains import Counted, count, listed, table
from pipelines.config.job_file import Ingest, Job
from pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from pipelines.execution.progress import progress
from pipelines.execution.runner import pipeline
from pipelines.execution.step import Report, Reports, total
from pipelines.steps.crawl_files import InputFile
from schemas.atomic_files import write_text

DOMAINS = "domains.tsv"
"""In the run: the domains that were kept, each with its pages in the crawl."""
CHOSEN = "domains-chosen.tsv"
"""In the step's work folder: the domains to keep, from their choice until the step is done."""


def list_file(job: Job, settings: Ingest) -> Path | None:
    """The job's list of domains, if it has one. Raises JobError (66) where it is missing."""
    if not settings.domain_list:
        return None
    path = job.path(settings.domain_list)
    if not path.is_file():
        raise JobError(f"ingest.domain_list: {path}: no such file", INPUT_MISSING)
    return path


def read_list(path: Path, most: int = 0) -> list[str]:
    """The domains of a list. Raises JobError (65) where a line is wrong or there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            found = listed(file, most)
    except (ValueError, csv.Error) as e:
        raise JobError(f"ingest.domain_list: {path}: {e}", BAD_DATA) from e
    if not found:
        raise JobError(f"ingest.domain_list: {path}: no domain in it", BAD_DATA)
    return found


def choose(
    job: Job, settings: Ingest, files: Sequence[InputFile], work: Path, beam_options: Sequence[str] = ()
) -> frozenset[str] | None:
    """The domains whose pages are kept; None where all are. Those chosen before, in the same work folder, stay chosen."""
    given = list_file(job, settings)
    if given is not None:
        return frozenset(read_list(given, settings.domains))
    if not settings.domains:
        return None
    chosen = work / CHOSEN
    if not chosen.is_file():
        tallies = reports(work)
        with (
            progress("domains", len(files), tallies.count),
            pipeline(beam_options, job.workers.processes, len(files)) as root,
        ):
            define(root, files, settings.domains, work)
    kept = listed(chosen.read_text(encoding="utf-8").splitlines())
    if not kept:
        raise JobError(
            f"ingest.domains = {settings.domains}: no page in {len(files)} files has a registered domain; leave it out",
            BAD_DATA,
        )
    return frozenset(kept)


def define(root: beam.Pipeline, files: Sequence[InputFile], most: int, work: Path) -> None:
    """The pipeline: count the pages of each file's domains, add up, keep the most popular."""
    _ = (
        root
        | "Files to count" >> beam.Create(list(files))  # InputFile
        | "Spread files to count" >> beam.Reshuffle()
        | "Count domains" >> beam.ParDo(CountDomains(work))  # (domain, pages) of one file
        | "Over all files" >> beam.CombinePerKey(sum)  # (domain, pages)
        | "Most popular" >> Top.Of(most, key=_popularity)  # [(domain, pages)]
        | "Keep them" >> beam.Map(write_chosen, work / CHOSEN)
    )


def _popularity(counted: Counted) -> tuple[int, tuple[int, ...]]:
    """The larger the more popular; of equally many pages the name that sorts first."""
    name, pages = counted
    return pages, (*(-ord(character) for character in name), 1)


class CountDomains(beam.DoFn):
    """An input file → (domain, pages) of each of its domains."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def process(self, file: InputFile) -> Iterator[Counted]:
        tallies = reports(self._work)
        report = tallies.read_one(file.number)
        if report is None:
            report = Report(file.number, {}, count(read_pages(file.path, file.name, Counter())))
            tallies.write(report)
        yield from report.counts.items()


def write_chosen(counted: Sequence[Counted], path: Path) -> None:
    write_text(path, table(dict(counted)))


def reports(work: Path) -> Reports:
    """A file's pages per domain, as its report's counts."""
    return Reports(work / "domains")


def publish(run: Path, work: Path) -> None:
    """Write the kept domains with their pages beside the manifests, while the work folder is there."""
    chosen = work / CHOSEN
    if chosen.is_file():
        write_text(run / DOMAINS, chosen.read_text(encoding="utf-8"))
    else:
        write_text(run / DOMAINS, table(total(reports(work).read().values())))
