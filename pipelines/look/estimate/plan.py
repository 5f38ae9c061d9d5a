"""`answermill plan`: a sample of the input is drawn, the steps are measured on it, and the whole job is computed from that."""

from __future__ import annotations

import hashlib
from pathlib import Path

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.look.estimate.input_sample import draw
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.estimate.prediction import predict
from answermill.pipelines.look.estimate.rates import Rates
from answermill.pipelines.look.estimate.record_sample import draw_records
from answermill.pipelines.look.estimate.sample_runs import measure
from answermill.pipelines.steps.retrieve.retrieve import choose_questions
from answermill.schemas.corpus import Question

PAGES, RECORDS, QUESTIONS = 1_000, 200, 64
"""Numbers drawn at the most; a record of a crawl's index is fetched from far away."""


def plan_of(job: Job, rates_file: Path | None = None, price_per_hour: float | None = None) -> tuple[RunEstimate, Rates]:
    """What a run of the job will take, and the rates of this machine. `rates_file`: of another machine, in place of these.

    Raises JobError: 78 if the job does not begin with pages, 65 or 66 as the steps do.
    """
    if job.ingest is None:
        raise JobError("the job has no [ingest] section, so there are no pages to plan from; add one with `input`", SETTINGS)
    other = Rates.read(rates_file) if rates_file is not None else None
    query = job.ingest.crawl_index
    source = draw(job, job.ingest, PAGES) if query is None else draw_records(job, job.ingest, query, RECORDS)
    asked = list(choose_questions(job).questions) if job.retrieve is not None else []

    sample = measure(job, source.drawn, sorted(asked, key=_hash)[:QUESTIONS])
    own = Rates.of(sample)
    if other is not None and (lacking := own.names() - other.names()):
        way_out = "measure this job there, with `answermill plan JOB.toml --save-rates FILE`"
        raise JobError(f"--rates {rates_file}: nothing of {', '.join(sorted(lacking))}; {way_out}", BAD_DATA)
    return predict(job, source, len(asked), sample, other or own, price_per_hour), own


def _hash(question: Question) -> bytes:
    return hashlib.sha256(question.question_id.encode()).digest()
