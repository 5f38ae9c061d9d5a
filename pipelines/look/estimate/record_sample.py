"""A bounded sample of the records that a job wants by a crawl's index: the index counts them all, and some are fetched."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config.crawl_index import CrawlIndex
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.look.estimate.input_sample import InputSample, by_hash
from answermill.pipelines.steps.ingest.wanted_records import choose, wanted


def draw_records(job: Job, settings: Ingest, query: CrawlIndex, most: int) -> InputSample:
    """Fetch up to `most` of the records, chosen by hash as `crawl_index.max_records` chooses them.

    Raises JobError (78) if the job reads files as well, 65 as ingest does.
    """
    if settings.input:
        raise JobError("ingest.input beside ingest.crawl_index: plan each of them in a job file without the other", SETTINGS)
    few = query.model_copy(update={"max_records": min(most, query.max_records or most)})
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as folder:
        everything, sample = Path(folder) / "records.parquet", Path(folder) / "sample.parquet"
        units = choose(job, settings, everything, 0)
        drawn = choose(job, settings.model_copy(update={"crawl_index": few}), sample, 0)
        read = [page for unit in drawn for page in unit.pages(unit.fetch(), Counter())]
        records = wanted(everything)
    pages = [page for page in read if isinstance(page, RawPage)]
    return InputSample(len(units), records, len(read), len(read) - len(pages), tuple(sorted(pages, key=by_hash)))
