"""A step that is none of ours, as somebody adds one: two modules and a line of the registry. It counts a
letter in documents, and in the questions of a run that has some."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from answermill.pipelines.look.estimate import sample_runs
from answermill.pipelines.runs.spec import StepSpec
from answermill.pipelines.specs.registry import SPECS

MODULES = {
    "toy_spec": '''
"""Toy: counts the letters of each document's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from answermill.pipelines.runs.counts import StepCounts, by_name, milliseconds
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

MAKER = Maker("toy")


@dataclass(frozen=True)
class ToyCounts(StepCounts):
    """Counts of toy."""

    documents: int = 0
    questions: int = 0
    letters: int = 0
    by_length: Mapping[str, int] = by_name()
    letters_ms: int = milliseconds("letters counted", "documents")


LETTERS = FolderSpec(
    "toy", "toy_step:LetterCount", MAKER, key=("doc_id",), links={"doc_id": "documents"}, rows="documents"
)
ASKED = FolderSpec(
    "toy_asked",
    "toy_step:QuestionLetterCount",
    MAKER,
    key=("question_id",),
    links={"question_id": "questions"},
    rows="questions",
    optional=True,
)
TOY = StepSpec(
    MAKER,
    "Count letters.",
    (LETTERS, ASKED),
    ToyCounts,
    settings="toy_step:Toy",
    reads=("documents",),
    item="letters",
    code="toy_step:STEP",
    units_stand_alone=True,
)
''',
    "toy_step": '''
from __future__ import annotations

import pyarrow as pa
from pydantic import Field
from toy_spec import ASKED, LETTERS, TOY, ToyCounts

from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.engine.runner import carry
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.record import Record, column, record
from answermill.schemas.section import Section


class Toy(Section):
    """Documents in, numbers of letters out."""

    letter: str = Field(description="letter to count")
    double: bool = Field(False, description="count each of them twice")


@record
class LetterCount(Record):
    """How often a letter is in a document."""

    doc_id: str = column(pa.string(), "Document.doc_id")
    letters: int = column(pa.int64(), "number of letters")


@record
class QuestionLetterCount(Record):
    """How often a letter is in a question."""

    question_id: str = column(pa.string(), "Question.question_id")
    letters: int = column(pa.int64(), "number of letters")


def check(job, run):
    if len(job.section("toy").letter) != 1:
        raise JobError("toy.letter: give one letter", BAD_DATA)


def step_of(job, run):
    read = {folder.name: folder.find(run) for folder in (DOCUMENTS, QUESTIONS)}
    inputs = {name: folder.digest() for name, folder in read.items() if folder is not None}
    return Step(run, TOY, job.section("toy").model_dump(), inputs)


def run_step(job, run, beam_options=()):
    documents, step = DOCUMENTS.open(run), step_of(job, run)
    commit = Commit(step)
    if commit.is_complete():
        return "toy (complete)"
    commit.begin()
    work = CountLetters(job, documents, step)
    outcome = carry(step, len(documents.parts), work, beam_options, job.workers.processes)
    commit.finish(outcome)
    return f"toy  {outcome.counts.letters} letters"


class CountLetters(UnitWork):
    def __init__(self, job, documents, step):
        super().__init__(step.name, step.work, ToyCounts)
        self._job, self._documents, self._step = job, documents, step

    def work(self, number):
        run, questions = self._step.run, QUESTIONS.find(self._step.run) if number == 0 else None
        read = DOCUMENTS.read_part(run, self._documents.parts[number])
        rows = [LetterCount(document.doc_id, self._count(document.text)) for document in read]
        with LETTERS.writer(run, number) as writer:
            writer.write(rows)
        parts = {LETTERS.name: writer.parts}
        if questions is not None:
            with ASKED.writer(run, number) as asked:
                for each in questions.read():
                    asked.write([QuestionLetterCount(each.question_id, self._count(each.text))])
            parts[ASKED.name] = asked.parts
        counts = ToyCounts(
            documents=len(rows),
            questions=0 if questions is None else questions.rows,
            letters=sum(row.letters for row in rows),
            by_length={"any": len(rows)},
            letters_ms=1500,
        )
        self._step.reports.write(Report(number, parts, counts))

    def _count(self, text):
        settings = self._job.section("toy")
        return text.count(settings.letter) * (1 + settings.double)


STEP = StepCode(run_step, check, step_of)
''',
}


class InThisProcess(Executor):
    """Runs a step of a plan's sample here, where it is known."""

    def submit(self, fn, /, job, run, step):
        done: Future[float] = Future()
        done.set_result(fn(job, run, step))
        return done


@contextmanager
def added_step(folder: Path) -> Iterator[StepSpec[Any]]:
    """In the block `toy` is a step of jobs, in this process; its modules are written into the folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in MODULES.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        patch.syspath_prepend(folder)
        toy: StepSpec[Any] = importlib.import_module("toy_spec").TOY
        patch.setitem(SPECS, toy.name, toy)
        patch.setattr(sample_runs, "new_process", InThisProcess)
        yield toy
    for name in MODULES:
        sys.modules.pop(name, None)
