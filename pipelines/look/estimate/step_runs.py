"""The steps of a job on a part of its input, in a temporary folder, and what each of them took.

Seconds are those of the processor, on one core, so that other work counts little. What beginning takes varies by more than some
dozen pages cost: a step that is over at once is run again, and the least counts. A step may begin with what the one before has
loaded, which a worker process loads for each step: so the first run of such a step is that of a new process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answermill.pipelines.config.step_registry import STEPS

from answermill.files.atomic_files import write_text
from answermill.pipelines.config import toml_file
from answermill.pipelines.config.job_file import Job, job_type
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.look.estimate.input_sample import InputSample, write_pages
from answermill.pipelines.runs.manifests.manifest import read_manifest
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.steps.models import use_threads
from answermill.pipelines.steps.retrieve.asked_questions import settings_of
from answermill.schemas.corpus import Question

QUICK_S, AGAIN = 3.0, 2
"""An ingest that takes no longer, and how often it is then run again."""
SEARCHING = ("retrieve", "rerank")
"""Steps that load the encoder or Java anew in a worker, as `index` has before."""
PARTS = {
    "ingest": ("documents", "passages", "rejects"),
    "index": ("shards",),
    "retrieve": ("questions", "retrieved"),
    "rerank": ("scored", "answers"),
}
"""Step → the folders that it writes."""


@dataclass(frozen=True, slots=True)
class StepRun:
    """A run of the steps over some pages and questions: processor seconds and counts of each."""

    pages: int
    questions: int
    seconds: Mapping[str, float]
    counts: Mapping[str, Mapping[str, int]]
    bytes: Mapping[str, int]


class StepRuns:
    """Runs the steps over a part of the sample."""

    def __init__(
        self, job: Job, sample: InputSample, questions: Sequence[Question], steps: Sequence[str], folder: Path
    ) -> None:
        self._job, self._sample, self._questions, self._steps, self.folder = job, sample, questions, steps, folder
        self.depth = 0
        """Passages that the last run asked each index for: a fifth of those that it had, or the job's depth."""

    def settled(self, *measured: StepRun) -> list[StepRun]:
        """The same runs with the least seconds of several for `ingest`, whose pages cost little, as long as it is quick."""
        least = [each.seconds["ingest"] for each in measured]
        for number in range(AGAIN if max(least) <= QUICK_S else 0):
            for place, each in enumerate(measured):
                again = self.run(f"again-{number}-{place}", each.pages, 0, ["ingest"])
                least[place] = min(least[place], again.seconds["ingest"])
        return [
            replace(each, seconds={**each.seconds, "ingest": seconds}) for each, seconds in zip(measured, least, strict=True)
        ]

    def run(
        self,
        name: str,
        pages: int,
        questions: int,
        steps: Sequence[str] | None = None,
        elsewhere: Executor | None = None,
    ) -> StepRun:
        """Run the steps, None = all of the job's, on the first pages and questions; those of SEARCHING `elsewhere`."""
        run, drawn = self.folder / name, self._sample.drawn[:pages]
        values = self._job.model_dump()
        values["ingest"] |= {"input": write_pages(drawn, self.folder / f"{name}-input"), "domains": 0, "max_reject_share": 1.0}
        values["ingest"]["crawl_index"] = None
        values["index"] |= {"shards": 1, "since": None}
        if values["rerank"] is not None:
            values["rerank"]["since"] = None
        values["workers"] |= {"processes": 1, "max_failed_units": 0}
        values |= {"annotate": None, "propagate": None}
        asked = self._questions[:questions]
        seconds: dict[str, float] = {}
        counts: dict[str, Mapping[str, int]] = {}
        sizes: dict[str, int] = {}
        for step in self._steps if steps is None else steps:
            if step == "retrieve":
                passages = counts["ingest"]["passages"]
                if not passages:
                    raise JobError(f"ingest.input: no passage came of {len(drawn)} pages drawn from it", BAD_DATA)
                values["retrieve"] |= self._retrieve(name, asked, passages)
            if step == "rerank":
                values["rerank"]["allow_empty"] = True
            small = toml_file.check(values, job_type(values), self._job.folder / "job.toml")
            print_line(f"measures   {step} on {len(drawn)} pages" + (f" and {len(asked)} questions" * (step in SEARCHING)))
            if elsewhere is not None and step in SEARCHING:
                seconds[step] = elsewhere.submit(take, small, run, step).result()
            else:
                seconds[step] = take(small, run, step)
            manifest = read_manifest(run / PARTS[step][-1] if step != "ingest" else run / "passages")
            assert manifest is not None  # the step has just written it
            counts[step] = manifest.counts
            for folder in PARTS[step]:
                written = read_manifest(run / folder)
                sizes[folder] = sum(part.bytes for part in written.parts) if written is not None else 0
        return StepRun(len(drawn), len(asked), seconds, counts, sizes)

    def _retrieve(self, name: str, asked: Sequence[Question], passages: int) -> dict[str, Any]:
        file = self.folder / f"{name}-questions.tsv"
        write_text(file, "question_id\ttext\n" + "".join(f"{each.question_id}\t{each.text}\n" for each in asked))
        self.depth = min(settings_of(self._job).depth, max(5, passages // 5))
        chosen = {"questions": str(file), "question_rules": "none", "question_scores_above": None, "max_questions": 0}
        return chosen | {"depth": self.depth}


def take(job: Job, run: Path, step: str) -> float:
    """Run a step; returns its processor seconds."""
    began = processor_seconds()
    STEPS[step].load().run(job, run, ())
    return processor_seconds() - began


def processor_seconds() -> float:
    """Processor seconds of this process, and of those that it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def one_thread() -> Iterator[None]:
    """In the block the models compute on one core, as those of a worker process do."""
    former = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    use_threads(1)
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if former is not None:
            os.environ["OMP_NUM_THREADS"] = former
