"""`answermill plan`: runs the steps on a sample of the input, and computes the cost of the whole job."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from answermill.pipelines.config.growth import Cost, WholeStep
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import code_of
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.look.estimate.actual import counts_of
from answermill.pipelines.look.estimate.input_sample import InputSample, draw, draw_records
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.estimate.rates import Rates, items, line
from answermill.pipelines.look.estimate.sample_runs import Sample, measure
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.ingest import INGEST, REJECTS
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.retrieve.retrieve import choose_questions
from answermill.schemas.corpus import Question

PAGES, RECORDS, QUESTIONS = 1_000, 200, 64
"""Most pages, records and questions that are drawn; records of a crawl's index are fetched from far away."""
ASSUMED = (
    "pages of the whole input are like those that were drawn, and no more of them are duplicates",
    "every index returns as much for a question, and the two agree as much, as in the sample's fifth of its "
    "passages",
    "a worker has a core to itself, as fast as the one that measured; reading the input and a store's "
    "network cost nothing",
    "a search of a shard costs what it costs in the sample's; stages cost the same for each candidate that "
    "comes in",
)


def plan_of(
    job: Job, rates_file: Path | None = None, price_per_hour: float | None = None
) -> tuple[RunEstimate, Rates]:
    """Estimate of a run of the job, and the rates of this machine. `rates_file`: rates of another machine, by
    which to estimate.

    Raises JobError: 78 if the job does not begin with pages, 65 or 66 as the steps do.
    """
    if job.ingest is None:
        raise JobError(
            "the job has no [ingest] section, so there are no pages to plan from; add one with `input`",
            SETTINGS,
        )

    other = Rates.read(rates_file) if rates_file is not None else None
    query = job.ingest.crawl_index
    source = draw(job, job.ingest, PAGES) if query is None else draw_records(job, job.ingest, query, RECORDS)
    questions = list(choose_questions(job).questions) if job.retrieve is not None else []

    sample = measure(job, source.drawn, sorted(questions, key=_hash)[:QUESTIONS])
    steps = list(whole_steps(job, source, len(questions), sample))
    own = Rates.of(sample, steps)
    if other is not None and (lacking := own.item.keys() - other.item.keys()):
        way_out = "measure this job there, with `answermill plan JOB.toml --save-rates FILE`"
        raise JobError(f"--rates {rates_file}: nothing of {', '.join(sorted(lacking))}; {way_out}", BAD_DATA)

    return predict(job, source, sample, steps, other or own, price_per_hour=price_per_hour), own


def _hash(question: Question) -> bytes:
    return hashlib.sha256(question.question_id.encode()).digest()


def whole_steps(job: Job, source: InputSample, questions: int, sample: Sample) -> Iterator[WholeStep]:
    """The steps of a job in order. `source`: its input; `questions`: number of its questions."""
    before: dict[str, float] = {INGEST.item: source.readable, "questions": questions}
    refused, parts = {REJECTS.name: source.pages - source.readable}, {INGEST.item: source.files}

    for spec, sampled in sample.steps():
        # A step grows with its items, if their number in the whole job is known, else with the rows that it
        # reads; it has a unit for each part of these. Where this does not hold, `grow` of the step's code
        # corrects it.
        run, reads = sampled.run, spec.reads[0] if spec.reads else INGEST.item
        if spec.item in before:
            scale = before[spec.item] / max(1, getattr(run.counts(spec), spec.item))
        else:
            scale = before[reads] / max(1, run.manifests[reads].rows)

        counts = {name: number * scale for name, number in counts_of(run, spec).items()}
        rows = {name: manifest.rows * scale + refused.get(name, 0) for name, manifest in run.of(spec).items()}
        rows |= {folder.name: before[folder.same_rows_as] for folder in spec if folder.same_rows_as in before}
        costs = {"": Cost(1.0, items(run, spec), items(run, spec) * scale)}

        step = WholeStep(spec, job, run, before, scale, parts[reads], parts[reads], counts, rows, costs)
        step.former = sample.former.get(spec.name)
        if (grow := code_of(spec).grow) is not None:
            grow(step)
        before, parts = before | step.rows, parts | dict.fromkeys(step.rows, step.parts)
        yield step


def predict(
    job: Job,
    source: InputSample,
    sample: Sample,
    steps: Sequence[WholeStep],
    rates: Rates,
    *,
    price_per_hour: float | None = None,
) -> RunEstimate:
    """Estimate of a job of these steps: their items times the cost of one, and the bytes of their rows."""
    workers = job.workers.processes or os.cpu_count() or 1
    counts, sizes, stages = {INGEST.item: source.pages}, dict[str, int](), dict[str, dict[str, float]]()
    seconds, hours = dict[str, float](), dict[str, float]()

    for step in steps:
        # All workers that have a unit start the step at the same time.
        name, costs = step.spec.name, rates.seconds(step)
        work, busy, startup = sum(costs.values()), max(1, min(workers, step.units)), rates.startup[name]
        seconds[name], hours[name] = work + startup * busy, (work / busy + startup) / 3600
        stages |= {name: costs} if "" not in costs else {}

        # A count that an earlier step also has stays as it is.
        counts |= {count: round(number) for count, number in step.counts.items() if count not in counts}
        for folder in filter(step.rows.get, step.rows):
            row_bytes, part_bytes = line(_size(sample.small.run, folder), _size(step.sample, folder))
            sizes[folder] = round(row_bytes * step.rows[folder] + part_bytes * step.parts)

    return RunEstimate(
        counts=counts,
        seconds=seconds,
        hours=hours,
        stage_seconds=stages,
        bytes=sizes,
        workers=workers,
        worker_bytes=sample.peak_bytes + sizes.get(SHARDS.name, 0) // counts.get(SHARDS.name, 1),
        machine=rates.machine,
        drawn=sample.ingested.run.counts(INGEST).pages,
        assumptions=list(ASSUMED),
        dollars=None if price_per_hour is None else price_per_hour * sum(hours.values()),
    )


def _size(run: Run, folder: str) -> tuple[int, int]:
    """Rows and bytes of a folder; 0 without a manifest."""
    manifest = run.manifests.get(folder)
    return (manifest.rows, sum(part.bytes for part in manifest.parts)) if manifest is not None else (0, 0)
