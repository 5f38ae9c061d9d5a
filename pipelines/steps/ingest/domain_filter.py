"""Before ingest: choose the registered domains whose pages are kept, from a list or by counting the crawl's
pages.

If the job asks for the most popular domains, a pass over the files counts the pages of each: it reads records
and URLs and extracts nothing. A unit is a file and has a report, so that a pass that was killed goes on. The
domains are applied in indexing/documents/parse.py.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from answermill.files.atomic_files import write_text
from answermill.indexing.documents.domains import count, listed, popularity, table
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.data.inputs.text_lines import lines
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.runner import open_engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, JobError, check_file
from answermill.pipelines.runs.counts import Tally
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.ingest import DOMAINS
from answermill.pipelines.steps.ingest.crawl_files import FileList

CHOSEN = "domains-chosen.tsv"
"""File like DOMAINS in the step's work folder, from the choice of the domains until the step is done."""
KEPT = "domains-kept.txt"
"""File of the step's work folder that lists the domains, a line each, for the workers that parse."""
BLOCK = "ingest/domains"
"""Name of the pass, for machines that share a run."""
_BUCKETS = 64
_DOMAIN = re.compile(r"(?![\d.]+$)[\w.-]+")

DomainPages: TypeAlias = Mapping[str, int]
"""Domain → its pages."""


def list_file(job: Job, settings: Ingest) -> Path | None:
    """The job's list of domains, if it has one. Raises JobError (66) if it is missing."""
    if not settings.domain_list:
        return None
    path = job.path(settings.domain_list)
    check_file(path, "ingest.domain_list:")
    return path


def read_list(path: Path, most: int = 0) -> list[str]:
    """The first `most` domains of a list (0 = all). Raises JobError (65) if a line is wrong or the list is
    empty."""
    try:
        domains = listed((text for _, text in lines(path)), most)
    except (ValueError, csv.Error) as e:
        raise JobError(f"ingest.domain_list: {path}: {e}", BAD_DATA) from e
    if not domains:
        raise JobError(f"ingest.domain_list: {path}: no domain in it", BAD_DATA)
    if wrong := next((domain for domain in domains if not _DOMAIN.fullmatch(domain)), ""):
        advice = "give one a line, or a rank and one between commas or tabs"
        raise JobError(f"ingest.domain_list: {path}: {wrong[:60]!r} is no domain; {advice}", BAD_DATA)
    return domains


def choose(
    job: Job, settings: Ingest, files: int, work: Path, beam_options: Sequence[str] = ()
) -> frozenset[str] | None:
    """The domains whose pages are kept, of `files` input files; None = all. A choice that is in the work
    folder already stands.

    Raises JobError: 65 or 66 if the list cannot be read, 65 if no page has a domain.
    """
    domain_list = list_file(job, settings)
    if domain_list is not None:
        return _keep(read_list(domain_list, settings.domains), work)
    if not settings.domains:
        return None

    chosen = work / CHOSEN
    if not chosen.is_file():
        with (
            progress("domains", files, reports(work).count, what="files"),
            open_engine(beam_options, job.workers.processes, files, work, BLOCK) as engine,
        ):
            define(engine, files, settings.domains, work)

    domains = listed(chosen.read_text(encoding="utf-8").splitlines())
    if not domains:
        raise JobError(
            f"ingest.domains = {settings.domains}: no page in {files} files has a registered domain; leave "
            "the key out",
            BAD_DATA,
        )

    return _keep(domains, work)


def _keep(domains: Iterable[str], work: Path) -> frozenset[str]:
    write_text(work / KEPT, "".join(f"{domain}\n" for domain in sorted(domains)))
    return frozenset(domains)


def kept(work: Path) -> frozenset[str] | None:
    """The domains that `choose` has chosen, for a worker; None = all."""
    path = work / KEPT
    return frozenset(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else None


def define(engine: Engine, files: int, most: int, work: Path) -> None:
    """Count the pages of each file's domains, add up, keep the most popular."""
    # (bucket, domain → pages) of one file
    counted = engine.each("Count domains", Units.first(files), CountDomains(work))
    # (0, domain → pages)
    popular = engine.group("Most popular of a bucket", [counted], partial(most_popular, most=most))
    engine.group(
        "Most popular", [popular], partial(write_chosen, most=most, path=work / CHOSEN), every=Units.first(1)
    )


class CountDomains(UnitWork):
    """An input file → its domains, each with its pages, in buckets."""

    skips_reported = False

    def __init__(self, work: Path) -> None:
        super().__init__("domains", work, Tally)
        self._work = work

    def load(self) -> None:
        self._files = FileList(self._work)

    def work(self, unit: int) -> Iterator[tuple[int, DomainPages]]:
        report = reports(self._work).read_one(unit)
        if report is None:
            file = self._files[unit]
            report = Report(unit, {}, Tally(count(file.pages(file.fetch(), Counter()))))
            reports(self._work).write(report)
        buckets: dict[int, dict[str, int]] = {}
        for domain, pages in report.counts.numbers.items():
            buckets.setdefault(crc32(domain.encode()) % _BUCKETS, {})[domain] = pages
        yield from buckets.items()


def most_popular(
    _bucket: int, members: Iterable[DomainPages], most: int
) -> Iterator[tuple[int, DomainPages]]:
    """The `most` domains with the most pages over all members."""
    pages: Counter[str] = Counter()
    for member in members:
        pages.update(member)
    yield 0, dict(nsmallest(most, pages.items(), key=popularity))


def write_chosen(
    _all: int, members: Iterable[DomainPages], most: int, path: Path
) -> Iterator[tuple[int, DomainPages]]:
    """Write the most popular domains of all buckets."""
    for _, domains in most_popular(0, members, most):
        write_text(path, table(domains))
    return iter(())


def reports(work: Path) -> Reports[Tally]:
    """A report for each file; its counts are the pages of each domain."""
    return Reports(work / "domains", Tally)


def publish(run: Path, work: Path) -> Part:
    """Write the kept domains with their pages into the run folder, while the work folder exists; return the
    file."""
    chosen = work / CHOSEN
    if chosen.is_file():
        write_text(run / DOMAINS, chosen.read_text(encoding="utf-8"))
    else:
        write_text(run / DOMAINS, table(Outcome.of(Tally(), reports(work).each()).counts.numbers))
    return Part.of(run, DOMAINS)
