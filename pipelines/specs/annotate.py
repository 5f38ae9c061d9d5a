"""Annotate: scored sentences in; the tasks that people judge, and packs of them for annotation tools, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.spec import BATCHES, FolderSpec, Maker, SealedFile, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.annotation import Task

MAKER = Maker("annotate")
PACKS, PACK_SUMMARY, PACK_PEOPLE = "packs", "packs.json", "people.json"
"""The folder of packs, the file in it that names them, and the one that says who has which tasks."""
STRATA = ("top", "random", "control")


@dataclass(frozen=True)
class AnnotateCounts(StepCounts):
    """Counts of annotate."""

    questions: int = 0
    sentences: int = 0
    passages: int = 0
    """Candidates of scored/ that are passages, which are not judged."""
    tasks: int = 0
    top: int = 0
    random: int = 0
    control: int = 0
    known: int = 0
    """Tasks whose label is known."""
    scores_beyond_0_1: int = 0
    controls_given: int = 0
    controls_found: int = 0
    controls_not_found: int = 0

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {"tasks": STRATA}


TASKS: FolderSpec[Task] = FolderSpec(
    "tasks",
    "answermill.schemas.annotation:Task",
    MAKER,
    key=("task_id",),
    links={"question_id": "questions", "passage_id": "passages"},
    rows="tasks",
)

ANNOTATE = StepSpec(
    MAKER,
    "Read scored/ and retrieved/; write tasks/, and packs/ for Label Studio, Argilla, Prodigy and "
    "spreadsheets.\n\n"
    "A job without [annotate] gets the defaults: the 15 best sentences of each question, and 2 random ones "
    "below them.",
    (TASKS,),
    AnnotateCounts,
    settings="answermill.pipelines.config.job_file:Annotate",
    reads=("scored", "retrieved"),
    item="sentences",
    code="answermill.pipelines.steps.annotate.annotate:STEP",
    revision=2,
    files=(SealedFile(f"{PACKS}/{PACK_SUMMARY}"),),
    batches=BATCHES,
    adds="`--set annotate.batch=N`, with the next number, asks for more and keeps it",
)
