"""Forecast of what ingest will read, and of its requests to stores and servers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from answermill.files.store import store_of
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import counted
from answermill.pipelines.specs.ingest import IngestCounts
from answermill.pipelines.steps.ingest.crawl_files import find_files
from answermill.pipelines.steps.ingest.wanted_records import RECORDS, choose


def foresee(job: Job) -> str:
    """Clauses for people. Reads lists of paths, the crawl's index and the sizes of files, but no pages.

    A run makes just these requests for these bytes, except that it repeats requests after a bad answer, and
    makes none for copies that this machine still has. Raises as ingest does.
    """
    assert job.ingest is not None  # or ingest is not among the steps
    files = find_files(job, job.ingest).files
    remote = [file for file in files if not store_of(file.path).is_local]
    clauses = [f"{counted(len(files), 'file')}, {sum(file.size for file in files):,} bytes"]
    total = IngestCounts(requests=len(remote), request_bytes=sum(file.size for file in remote))

    if job.ingest.crawl_index is not None:
        with tempfile.TemporaryDirectory(prefix="answermill-dry-run-") as folder:
            units = choose(job, job.ingest, Path(folder) / RECORDS, len(files))
            crawl = sum((unit.counts() for unit in units), IngestCounts())
            places = {record.path for unit in units for record in unit.records}
        where = f"of {counted(len(places), 'file')} of the crawl"
        clauses.append(f"{counted(crawl.records, 'record')} {where}, {crawl.record_bytes:,} bytes")
        total = total + crawl

    return (
        f"reads {'; '.join(clauses)}; it fetches {total.request_bytes:,} bytes in "
        f"{counted(total.requests, 'request')}"
    )
