"""A step that is none of ours: it copies documents, and counts their letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.schemas.corpus import Document
from answermill.schemas.section import Section


class Toy(Section):
    """Documents in, documents out."""


@dataclass(frozen=True)
class ToyCounts(StepCounts):
    """Counts of toy."""

    letters: int = 0


COPIES = FolderSpec.of("toy", Document, Maker("toy"))
TOY = StepSpec(
    Maker("toy"),
    "Copy documents.",
    (COPIES,),
    ToyCounts,
    settings=f"{__name__}:Toy",
    reads=(DOCUMENTS.name,),
    item="letters",
    code=f"{__name__}:STEP",
)


def step_of(job: Job, run: Path) -> Step[ToyCounts]:
    return Step(run, TOY, {}, {})


def run_step(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    step = step_of(job, run)
    Commit(step).begin()
    documents = list(DOCUMENTS.open(run).read())
    with PartWriter(run / COPIES.name, Document, 0) as writer:
        writer.write(documents)
    counts = ToyCounts(letters=sum(len(document.text) for document in documents))
    step.reports.write(Report(0, {COPIES.name: writer.parts}, counts))
    Commit(step).finish(Commit(step).reported(1))
    return "toy"


STEP = StepCode(run_step, check=lambda job, run: None, step_of=step_of)
