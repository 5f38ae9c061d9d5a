"""Retrieve: questions in; for each the best passages of all shards out, by BM25, by dense vectors, and fused.

Questions that the job's rules refuse, or its sample leaves out, are kept in questions_rejects/.
First each shard counts how often the questions' words occur in it; with the sum, each shard's BM25 scores are those of
one index over everything. Then each block of questions meets each shard; what moves between workers is arrays of
(passage, score), merged two by two, ties broken by id. Passages are fetched once the best are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam

from pipelines.config.job_file import Job, Retrieve
from pipelines.config.outputs import RETRIEVE as OUTPUTS
from pipelines.config.step_registry import StepCode
from pipelines.errors import SETTINGS, JobError, counted
from pipelines.execution.manifests.reports import Report
from pipelines.execution.meter import Tallies
from pipelines.execution.parquet_folder import Folder, PartWriter
from pipelines.execution.progress import progress
from pipelines.execution.runner import naming_what_is_missing, pipeline
from pipelines.execution.step import Step
from pipelines.inputs.questions import QuestionChoice, choose, describe
from pipelines.retrieve.open_shards import ShardPlace, shards_of
from pipelines.retrieve.shard_search import (
    BLOCKS_PER_SEARCH,
    Block,
    CountWords,
    EncodeQuestions,
    FuseAndFetch,
    MergeShards,
    Search,
    add,
    look_ups,
)
from pipelines.steps.models import check_engines, encoder_inputs, encoder_settings
from schemas.atomic_files import sha256
from schemas.corpus import Passage, Rejected
from schemas.ranked import Hit

REVISION = 3
"""Raised when the step's code changes so that the same input gives another output."""


def settings_of(job: Job) -> Retrieve:
    """The job's [retrieve]. Raises JobError (78) if it has none."""
    if job.retrieve is None:
        raise JobError("the job has no [retrieve] section; add one with `questions`", SETTINGS)
    return job.retrieve


def choose_questions(job: Job) -> QuestionChoice:
    """The questions that are searched, and those that are not. Raises JobError as `questions.choose` does."""
    settings = settings_of(job)
    return choose(job.path(settings.questions), settings)


def check(job: Job, run: Path) -> None:
    """Look at the questions and for Java, Lucene and the encoder before any work. Raises as `choose_questions` and these do."""
    choose_questions(job)
    check_engines(job)


def step_of(job: Job, run: Path) -> Step:
    """The retrieve step of a run. Raises JobError if shards/ or the questions are missing, ModelMissing if an encoder is."""
    shards = Folder.open(run / "shards", Passage, "index")
    settings = settings_of(job)
    inputs = {"questions": sha256(job.path(settings.questions)), "shards": shards.manifest.fingerprint}
    decisive = settings.model_dump(exclude={"questions"})
    if "dense" in settings.sources:
        decisive["encoder"] = encoder_settings(job)
        inputs |= encoder_inputs(job)
    return Step(run, "retrieve", OUTPUTS, decisive, inputs, REVISION, units_stand_alone=True)


def retrieve(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; returns its summary line."""
    step, settings = step_of(job, run), settings_of(job)
    if step.is_complete():
        return summary(run) + " (complete)"
    step.begin(job.workers)
    choice = choose_questions(job)
    questions = choice.questions
    starts = range(0, len(questions), settings.block)
    blocks = [Block(n, questions[start : start + settings.block]) for n, start in enumerate(starts)]
    done = step.reports.numbers()
    pending = [block for block in blocks if block.number not in done]
    shards = shards_of(run)
    items = look_ups(pending, len(shards))
    with (
        progress("retrieve", items, Tallies(step.work, items).done, what="look-ups", units=len(blocks)),
        naming_what_is_missing(step, len(blocks)),
        pipeline(beam_options, job.workers.processes, len(pending)) as root,
    ):
        define(root, pending, shards, job, settings, step)
    outcome = step.reported(len(blocks))
    outcome.include(write_rejects(choice, step, len(blocks)))
    counts = outcome.counts
    if counts["questions"] != len(questions):
        raise RuntimeError(f"{len(questions)} questions came in, {counts['questions']} were searched")
    step.finish(outcome, counts)
    return summary(run)


def define(
    root: beam.Pipeline, blocks: Sequence[Block], shards: Sequence[ShardPlace], job: Job, settings: Retrieve, step: Step
) -> None:
    """The pipeline: count words over shards, encode questions, search each block in each shard, merge, fuse, fetch."""
    statistics = (
        root
        | "Shards" >> beam.Create(list(enumerate(shards)))  # (number, ShardPlace)
        | "Count words" >> beam.ParDo(CountWords(blocks, job, settings, step))  # GlobalStatistics of one shard
        | "Over all shards" >> beam.CombineGlobally(add)  # GlobalStatistics
    )
    vectors = (
        root
        | "Blocks" >> beam.Create([(block.number, block) for block in blocks])
        | "Encode questions" >> beam.ParDo(EncodeQuestions(job, settings, step))  # (block number, QuestionVectors)
    )
    searches = [(n, shard, first) for n, shard in enumerate(shards) for first in range(0, len(blocks), BLOCKS_PER_SEARCH)]
    search = Search(blocks, job, settings, step)
    (
        root
        | "Searches" >> beam.Create(searches)  # (shard number, ShardPlace, first of some blocks)
        | "Search" >> beam.ParDo(search, beam.pvalue.AsSingleton(statistics), beam.pvalue.AsDict(vectors))
        # (block number, BlockHits of one shard)
        | "Merge shards" >> beam.CombinePerKey(MergeShards(settings.depth))  # (block number, BlockHits)
        | "Fuse and fetch" >> beam.ParDo(FuseAndFetch(blocks, shards, job, settings, step))
    )


def write_rejects(choice: QuestionChoice, step: Step, unit: int) -> Report:
    """Write the questions that are not searched to questions_rejects/, as the unit after the last block."""
    writer = PartWriter(step.run / "questions_rejects", Rejected, unit)
    with writer:
        writer.write(choice.rejects)
    counts = {"questions_given": len(choice.questions) + len(choice.rejects), "questions_rejects": writer.part.rows}
    reasons = {f"rejected.{reason}": n for reason, n in sorted(choice.reasons.items())}
    return Report(unit, {"questions_rejects": writer.parts}, counts | reasons)


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = Counter(Folder.open(run / "retrieved", Hit, "retrieve").manifest.counts)
    questions = counted(counts["questions"], "question")
    if counts["questions_rejects"]:
        reasons = Counter({k.removeprefix("rejected."): n for k, n in counts.items() if k.startswith("rejected.")})
        questions = (
            f"{counts['questions_given']:,} given = {questions} + {counts['questions_rejects']:,} rejects ({describe(reasons)})"
        )
    return (
        f"retrieve   {questions}, {counts['hits']:,} passages ({counts['bm25']:,} by BM25, "
        f"{counts['dense']:,} by dense); {counts['without_hits']:,} questions found none"
    )


STEP = StepCode(OUTPUTS, retrieve, check)
