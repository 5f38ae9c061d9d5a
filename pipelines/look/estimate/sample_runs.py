"""The steps of a job on a small and on a larger part of its input, in a temporary folder.

Each step has its own process, on one core, as in a worker. It runs there on the small part twice, the first
time with everything still to be loaded, and then on the larger part, which takes longer by the cost of its
further items. Seconds are those of the processor, so that other work counts little.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import write_text
from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config import toml_file
from answermill.pipelines.config.job_file import Job, job_type
from answermill.pipelines.config.step_code import code_of
from answermill.pipelines.errors import BAD_DATA, UNEXPECTED, JobError
from answermill.pipelines.look.estimate.input_sample import size, spread, write_pages
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.registry import SPECS, AnyStep, job_steps, makers
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import steps_of
from answermill.pipelines.steps.retrieve.retrieve import sample_depth
from answermill.schemas.corpus import Question

SMALL_PAGES, SMALL_QUESTIONS, LEAST = 8, 2, 4
"""Pages and questions of the small run; the larger one has at least LEAST times as many, if the input has."""
STEP_S = 15.0
"""Most seconds that a step of the larger run should take."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A run over a part of the input, and step → processor seconds."""

    run: Run
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """Three runs of the steps, and one of ingest alone, over more pages than can be encoded in the time."""

    first: Sampled
    """Run over the small part, in new processes."""
    small: Sampled
    """Second run over the small part, in the same processes."""
    large: Sampled
    ingested: Sampled
    """Run of ingest alone; `large` if that has as many pages."""
    peak_bytes: int = 0
    """Peak memory of the largest process of a step."""
    former: Mapping[str, object] = field(default_factory=dict)
    """Step → what it takes over from an earlier run, of the steps that take something."""

    def steps(self) -> Iterator[tuple[AnyStep, Sampled]]:
        """(step, larger run of it), in the steps' order."""
        for name in self.large.seconds:
            yield SPECS[name], self.ingested if name == INGEST.name else self.large


def measure(job: Job, pages: Sequence[RawPage], questions: Sequence[Question]) -> Sample:
    """Run the job's steps on parts of these; `pages` are in the order of their sizes.

    Raises JobError (65) if no page becomes a passage, and as the steps do.
    """
    few, first_questions = spread(pages, SMALL_PAGES, size), questions[:SMALL_QUESTIONS]
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as name, _one_core(), ExitStack() as stack:
        folder, processes = Path(name), {step: stack.enter_context(new_process()) for step in job_steps()}
        first = _run(job, processes, folder / "first", few, first_questions)
        small = _run(job, processes, folder / "small", few, first_questions)

        # Encoding a page takes longer than reading it, so some are only read: the shares of refused pages and
        # of duplicates need many pages.
        readable = spread(pages, _as_many(few, small.seconds[INGEST.name]), size)
        indexed = spread(readable, _as_many(few, small.seconds.get(INDEX.name, 0.0)), size)
        more = questions[: _as_many(first_questions, small.seconds.get(RERANK.name, 0.0))]
        large = ingested = _run(job, processes, folder / "large", indexed, more)
        if len(readable) > len(indexed):
            ingested = _run(job, processes, folder / "ingested", readable, (), steps=[INGEST.name])
        former = _former(job, large)

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak_bytes = peak if sys.platform == "darwin" else peak * 1024
    return Sample(first, small, large, ingested, peak_bytes, former)


def _former(job: Job, sampled: Sampled) -> dict[str, object]:
    """Step → what it takes over from an earlier run, by its run of the sample."""
    codes = {step: code_of(SPECS[step]) for step in sampled.seconds}
    former = {s: code.former(job, sampled.run.path) for s, code in codes.items() if code.former is not None}
    return {step: value for step, value in former.items() if value is not None}


def _as_many(few: Sequence[object], seconds: float) -> int:
    """Number of items that a step does in STEP_S, if `few` take `seconds`; at least LEAST times `few`."""
    return max(LEAST * len(few), int(STEP_S / max(seconds / max(1, len(few)), 1e-3)))


def _run(
    job: Job,
    processes: Mapping[str, Executor],
    folder: Path,
    pages: Sequence[RawPage],
    questions: Sequence[Question],
    *,
    steps: Sequence[str] = (),
) -> Sampled:
    """Run these steps, or all that the job has."""
    settings, run, seconds = _settings(job, folder, pages, questions), folder / "run", dict[str, float]()
    for step in steps or steps_of(settings):
        if not seconds.keys() >= {*makers(SPECS[step].reads)}:
            continue  # it reads what annotate or propagate writes
        if step == RETRIEVE.name and settings.retrieve is not None:
            if not (passages := Run.open(run).counts(INDEX).passages):
                raise JobError(f"ingest.input: no passage came of {len(pages)} pages drawn from it", BAD_DATA)
            depth = sample_depth(settings.retrieve.depth, passages)
            settings = settings.model_copy(
                update={step: settings.retrieve.model_copy(update={"depth": depth})}
            )
        counts = f"{len(pages)} pages" + f" and {len(questions)} questions" * bool(questions)
        print_line(f"measures   {step} on {counts}")
        try:
            seconds[step] = processes[step].submit(take, settings, run, step).result()
        except BrokenProcessPool:
            raise JobError(
                f"{step}: the process that measured it has ended, perhaps for lack of memory; free some, and "
                "type the same command",
                UNEXPECTED,
            ) from None

    return Sampled(Run.open(run), seconds)


def _settings(job: Job, folder: Path, pages: Sequence[RawPage], questions: Sequence[Question]) -> Job:
    """The job for these pages and questions, in one shard and process, and without an earlier run or
    labels."""
    files, questions_file = write_pages(pages, folder / "input"), folder / "questions.tsv"
    lines = (f"{question.question_id}\t{question.text}\n" for question in questions)
    write_text(questions_file, "question_id\ttext\n" + "".join(lines))
    no_choice = {"max_questions": 0, "question_rules": "none", "question_scores_above": None}
    own: dict[str, dict[str, Any]] = {
        "ingest": {"input": files, "crawl_index": None, "domains": 0, "max_reject_share": 1.0},
        "index": {"shards": 1},
        "retrieve": {"questions": str(questions_file), **no_choice},
        "rerank": {"allow_empty": True},
        "workers": {"processes": 1, "max_failed_units": 0},
    }

    values = job.model_dump() | {"annotate": None, "propagate": None}
    for name, section in values.items():
        if section:
            section.update(own.get(name, {}), **{key: None for key in section if key == "since"})

    return toml_file.check(values, job_type(values), job.folder / "job.toml")


def take(job: Job, run: Path, step: str) -> float:
    """Run a step; returns its processor seconds."""
    began = processor_seconds()
    code_of(SPECS[step]).run(job, run, ())
    return processor_seconds() - began


def processor_seconds() -> float:
    """Processor seconds of this process, and of those that it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def new_process() -> Executor:
    """A process that has loaded nothing. Its libraries log no warnings about parts that we do not use."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), logging.disable, (logging.WARNING,))


@contextmanager
def _one_core() -> Iterator[None]:
    """Start processes that compute on one core in the block: libraries read that when they are loaded."""
    former = dict(os.environ)
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        os.environ.update(former)
