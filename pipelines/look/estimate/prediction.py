"""Prediction of a whole job: what its steps make of a sample, scaled to its input, times what each item costs."""

from __future__ import annotations

import os

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.look.estimate.input_sample import InputSample
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.estimate.rates import Rates, line
from answermill.pipelines.look.estimate.sample_runs import Sample, items, sample_depth
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, PASSAGES, REJECTS
from answermill.pipelines.specs.registry import AnyStep
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.index.shard_ranges import ranges

ASSUMED = (
    "pages of the whole input are like those that were drawn, and no more of them are duplicates",
    "every index returns as much for a question, and the two agree as much, as in the sample's fifth of its passages",
    "a worker has a core to itself, as fast as the one that measured; reading the input and a store's network cost nothing",
    "a search of a shard costs what it costs in the sample's; stages cost the same for each candidate that comes in",
)


def predict(
    job: Job, source: InputSample, questions: int, sample: Sample, rates: Rates, price_per_hour: float | None = None
) -> RunEstimate:
    """The plan of a job: `source` is its input, `questions` is how many it asks."""
    workers = job.workers.processes or os.cpu_count() or 1
    counts, seconds, hours, sizes, stages = dict[str, int](), dict[str, float](), dict[str, float](), dict[str, int](), {}
    rows, parts = dict[str, float](), dict[str, int]()  # of each folder of the whole job

    for spec, sampled in sample.steps():
        # A step grows with the rows of what it reads, and has a unit for each of its parts.
        run = sampled.run
        scale, units = source.readable / max(1, run.counts(INGEST).pages), source.files
        if spec.reads:
            scale, units = rows[spec.reads[0]] / max(1, run.manifests[spec.reads[0]].rows), parts[spec.reads[0]]
        if spec.name == RETRIEVE.name:
            scale = questions / max(1, run.counts(RETRIEVE).questions)

        # Of the whole job: the step's counts, rows of its folders, seconds without those to begin, and parts of a folder.
        named = {name: number * scale for name, number in counts_of(run, spec).items()}
        row_counts = {folder: manifest.rows * scale for folder, manifest in run.of(spec).items()}
        row_counts |= {folder.name: rows[folder.same_rows_as] for folder in spec if folder.same_rows_as in rows}
        work, blocks = rates.item[spec.name] * items(run, spec) * scale, units

        # What is known better of our own steps.
        match spec.name:
            case INGEST.name:  # pages that reading refuses cost nothing, and are rejects
                named[INGEST.item], row_counts[REJECTS.name] = source.pages, source.pages - row_counts[DOCUMENTS.name]
            case INDEX.name:
                units = blocks = len(ranges(round(rows[PASSAGES.name]), job.index.shards, job.index.passages_per_shard))
                named[SHARDS.name] = units
            case RETRIEVE.name:
                assert job.retrieve is not None
                blocks = -(-questions // job.retrieve.block)
                named["hits"] = row_counts[RETRIEVED.name] = questions * _hits(job, rows[PASSAGES.name], run)
                work += questions * (units - 1) * rates.question_shard
            case RERANK.name:
                scales, counted = _stage_scales(job, scale, questions, run), run.counts(RERANK).stages
                stages = {name: rates.candidate[name] * counted[name].incoming * each for name, each in scales.items()}
                named["layer_tokens"] = sum(counted[name].layer_tokens * each for name, each in scales.items())
                work = sum(stages.values())

        # All workers that have a unit begin the step, at the same time.
        busy, startup = max(1, min(workers, units)), rates.startup[spec.name]
        seconds[spec.name], hours[spec.name] = work + startup * busy, (work / busy + startup) / 3600
        counts |= {name: round(number) for name, number in named.items() if name not in counts}
        rows |= row_counts
        parts |= dict.fromkeys(row_counts, blocks)
        for folder in filter(row_counts.get, row_counts):
            each, of_part = line(_size(sample.small.run, folder), _size(run, folder))
            sizes[folder] = round(each * row_counts[folder] + of_part * blocks)

    return RunEstimate(
        counts=counts,
        seconds=seconds,
        hours=hours,
        stage_seconds=stages,
        bytes=sizes,
        workers=workers,
        worker_bytes=sample.peak_bytes + sizes.get(SHARDS.name, 0) // parts.get(SHARDS.name, 1),
        machine=rates.machine,
        drawn=sample.ingested.run.counts(INGEST).pages,
        assumptions=list(ASSUMED),
        dollars=None if price_per_hour is None else price_per_hour * sum(hours.values()),
    )


def counts_of(run: Run, spec: AnyStep) -> dict[str, float]:
    """The step's counts in a run of which people are told: its item, its folders' rows, shards, and layers × tokens."""
    counts = run.counts(spec)
    named = {name: getattr(counts, name, 0) for name in (spec.item, "layer_tokens")}
    folders = [folder for folder in spec if folder.name in run.manifests]
    named |= {folder.rows: run.manifests[folder.name].rows for folder in folders if folder.rows != "rejects"}
    named |= {folder.name: len(run.manifests[folder.name].parts) for folder in folders if folder.part_is_folder}
    return {name: number for name, number in named.items() if name and number}


def _size(run: Run, folder: str) -> tuple[int, int]:
    """Rows and bytes."""
    manifest = run.manifests.get(folder)
    return (manifest.rows, sum(part.bytes for part in manifest.parts)) if manifest is not None else (0, 0)


def _hits(job: Job, passages: float, run: Run) -> float:
    """Passages that a question finds in the whole corpus."""
    assert job.retrieve is not None
    counts, indexed = run.counts(RETRIEVE), run.counts(INDEX).passages
    shorter = min(counts.bm25, counts.dense)
    overlap = (counts.bm25 + counts.dense - counts.hits) / shorter if shorter else 0.0  # of the shorter list, what both found

    most = min(job.retrieve.depth, passages)
    asked = max(1, counts.questions * min(sample_depth(job, indexed), indexed))
    bm25, dense = most * counts.bm25 / asked, most * counts.dense / asked
    return bm25 + dense - overlap * min(bm25, dense)


def _stage_scales(job: Job, scale: float, questions: int, run: Run) -> dict[str, float]:
    """Stage → the whole job's candidates for one of the sample's. `scale`: those of the first stage; one after a `keep` has no
    more than that, however many come before it."""
    assert job.rerank is not None
    counts, scales = run.counts(RERANK), dict[str, float]()
    for stage in job.rerank.stages:
        scales[stage.key] = scale
        if stage.keep is not None and (left := counts.stages[stage.key].outgoing):
            scale = min(scale, max(questions / max(1, counts.questions), questions * stage.keep / left))
    return scales
