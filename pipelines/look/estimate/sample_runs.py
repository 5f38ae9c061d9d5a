"""The steps of a job on a small and on a larger part of its input, in a temporary folder.

Each step has its own process, on one core, as in a worker. There it runs on the small part twice, the first time with all
that is to be loaded, and then on the larger part, which takes longer by what its further items cost. Seconds are those of the
processor, so that other work counts little.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from answermill.files.atomic_files import write_text
from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config import toml_file
from answermill.pipelines.config.job_file import Job, job_type
from answermill.pipelines.config.step_code import code_of
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.look.estimate.input_sample import write_pages
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.registry import SPECS, AnyStep, makers
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import steps_of
from answermill.schemas.corpus import Question

SMALL_PAGES, SMALL_QUESTIONS, LEAST = 8, 2, 4
"""Pages and questions of the small run; the larger one has at least LEAST times as many, if there are as many."""
STEP_S = 15.0
"""Seconds that a step of the larger run should take at the most."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sampled:
    """A run over a part of the input: its manifests, and step → processor seconds."""

    run: Run
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """Three runs of the steps, and one of ingest alone, over more pages than can be encoded in the time."""

    first: Sampled
    """Over the small part, in new processes."""
    small: Sampled
    large: Sampled
    ingested: Sampled
    peak_bytes: int = 0
    """The most memory of a step's process."""

    def steps(self) -> Iterator[tuple[AnyStep, Sampled]]:
        """(step, larger run of it), in the order in which they run."""
        for name in self.large.seconds:
            yield SPECS[name], self.ingested if name == INGEST.name else self.large


def items(run: Run, spec: AnyStep) -> int:
    """The number with which a step's time grows: layers × tokens if it counts them, since these differ between questions; else
    its item, or the rows that it reads."""
    counts = run.counts(spec)
    tokens: int = getattr(counts, "layer_tokens", 0)
    return tokens or (getattr(counts, spec.item) if spec.item else sum(run.manifests[name].rows for name in spec.reads[:1]))


def measure(job: Job, pages: Sequence[RawPage], questions: Sequence[Question]) -> Sample:
    """Run the job's steps on parts of these. Raises JobError (65) if no page becomes a passage, and as the steps do."""
    few, asked = pages[:SMALL_PAGES], questions[:SMALL_QUESTIONS]
    with tempfile.TemporaryDirectory(prefix="answermill-plan-") as folder, _one_core(), ExitStack() as stack:
        parts = _Parts(job, Path(folder), stack)
        first, small = parts.run("first", few, asked), parts.run("small", few, asked)

        # Encoding a page takes longer than reading it, so some pages are only read: they say what becomes of pages.
        readable = _as_many(pages, few, small.seconds[INGEST.name])
        indexed = _as_many(readable, few, small.seconds.get(INDEX.name, 0.0))
        large = parts.run("large", indexed, _as_many(questions, asked, small.seconds.get(RERANK.name, 0.0)))
        ingested = parts.run("ingested", readable, (), [INGEST.name]) if len(readable) > len(indexed) else large
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return Sample(first, small, large, ingested, peak if sys.platform == "darwin" else peak * 1024)


def _as_many(values: Sequence[T], few: Sequence[T], seconds: float) -> Sequence[T]:
    """As many of the values as a step does in STEP_S, which takes `seconds` for a few."""
    each = max(seconds / max(1, len(few)), 1e-3)
    return values[: max(LEAST * len(few), int(STEP_S / each))]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Runs of a job over parts of its input."""

    job: Job
    folder: Path
    stack: ExitStack
    processes: dict[str, Executor] = field(default_factory=dict)

    def run(self, name: str, pages: Sequence[RawPage], asked: Sequence[Question], steps: Sequence[str] = ()) -> Sampled:
        """Run these steps, or all that the job has."""
        run, seconds = self.folder / name / "run", dict[str, float]()
        values = self._settings(self.folder / name, pages, asked)
        for step in steps or steps_of(self._checked(values)):
            if not seconds.keys() >= {*makers(SPECS[step].reads)}:
                continue  # it reads what annotate or propagate writes
            if step == RETRIEVE.name:
                if not (passages := Run.open(run).counts(INDEX).passages):
                    raise JobError(f"ingest.input: no passage came of {len(pages)} pages drawn from it", BAD_DATA)
                values[step]["depth"] = sample_depth(self.job, passages)
            print_line(f"measures   {step} on {len(pages)} pages" + f" and {len(asked)} questions" * bool(asked))
            if step not in self.processes:
                self.processes[step] = self.stack.enter_context(new_process())
            seconds[step] = self.processes[step].submit(take, self._checked(values), run, step).result()
        return Sampled(Run.open(run), seconds)

    def _checked(self, values: dict[str, Any]) -> Job:
        return toml_file.check(values, job_type(values), self.job.folder / "job.toml")

    def _settings(self, folder: Path, pages: Sequence[RawPage], asked: Sequence[Question]) -> dict[str, Any]:
        """The job's, for these pages and questions, in one shard and process, and without an earlier run or labels."""
        values = self.job.model_dump() | {"annotate": None, "propagate": None}
        for section in values.values():
            if section and "since" in section:
                section["since"] = None

        values["ingest"] |= {"input": write_pages(pages, folder / "input"), "crawl_index": None}
        values["ingest"] |= {"domains": 0, "max_reject_share": 1.0}
        values["index"]["shards"] = 1
        values["workers"] |= {"processes": 1, "max_failed_units": 0}
        if values["retrieve"]:
            rows = "".join(f"{each.question_id}\t{each.text}\n" for each in asked)
            write_text(folder / "questions.tsv", f"question_id\ttext\n{rows}")
            values["retrieve"] |= {"questions": str(folder / "questions.tsv"), "max_questions": 0}
            values["retrieve"] |= {"question_rules": "none", "question_scores_above": None}
        if values["rerank"]:
            values["rerank"]["allow_empty"] = True
        return values


def sample_depth(job: Job, passages: int) -> int:
    """Passages for which a run over some asks each index: a fifth of them, or the job's depth."""
    assert job.retrieve is not None
    return min(job.retrieve.depth, max(5, passages // 5))


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
    """A process that has loaded nothing; what it loads does not log what is missing for uses that are none of ours."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), logging.disable, (logging.WARNING,))


@contextmanager
def _one_core() -> Iterator[None]:
    """In the block, processes begin that compute on one core: libraries read that when they are loaded."""
    former = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if former is not None:
            os.environ["OMP_NUM_THREADS"] = former
