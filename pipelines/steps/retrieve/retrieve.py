"""Retrieve: questions in; for each the best passages of all shards out, by BM25, by dense vectors, and fused.

Questions that the job's rules refuse, or its sample leaves out, are kept in questions_rejects/.
The others go through passes (search_plan.py), each of which leaves parts for the next in the step's work folder: a run that was
stopped goes on there. No process holds more than a batch of questions, or opens more than a shard at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from answermill.files.atomic_files import sha256
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.outputs import RETRIEVE as OUTPUTS
from answermill.pipelines.config.step_registry import StepCode
from answermill.pipelines.data.inputs.questions import QuestionChoice, choose, describe
from answermill.pipelines.engine.runner import naming_what_is_missing, open_engine
from answermill.pipelines.errors import counted
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meters, add_up
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.steps.models import check_engines, encoder_inputs, encoder_settings
from answermill.pipelines.steps.retrieve.asked_questions import settings_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import define
from answermill.pipelines.steps.retrieve.search_plan import ask, plan
from answermill.schemas.corpus import Passage, Rejected
from answermill.schemas.ranked import Hit

REVISION = 3
"""Raised when the step's code changes so that the same input gives another output."""


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
    blocks = -(-len(questions) // settings.block)
    done = step.reports.numbers()
    if pending := [number for number in range(blocks) if number not in done]:
        asked = ask(questions, pending, settings.block, step, job)
        turns = plan(asked, len(questions), RunShards.of(job, run), settings, step)
        for turn in turns[:-1]:
            turn.step.begin(job.workers)
        meters = [Meters(turn.step.work, turn.sizes) for turn in turns]
        items, units = sum(sum(turn.sizes) for turn in turns), sum(len(turn.sizes) for turn in turns)
        with (
            progress("retrieve", items, lambda: add_up(meters), what="look-ups", units=units),
            naming_what_is_missing(step, blocks),
            open_engine(beam_options, job.workers.processes, max(len(turn.sizes) for turn in turns), step.work) as engine,
        ):
            define(engine, turns)
    outcome = step.reported(blocks)
    outcome.include(write_rejects(choice, step, blocks))
    counts = outcome.counts
    if counts["questions"] != len(questions):
        raise RuntimeError(f"{len(questions)} questions came in, {counts['questions']} were searched")
    step.finish(outcome, counts)
    return summary(run)


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
    times = [(name, counts[f"{key}_ms"]) for key, name in (("bm25", "BM25"), ("dense", "dense"))]
    speed = ", ".join(f"{name} {1000 * counts['questions'] / spent:,.0f} questions/s" for name, spent in times if spent)
    return (
        f"retrieve   {questions}, {counts['hits']:,} passages ({counts['bm25']:,} by BM25, "
        f"{counts['dense']:,} by dense); {counts['without_hits']:,} questions found none{f'; {speed}' if speed else ''}"
    )


STEP = StepCode(OUTPUTS, retrieve, check)
