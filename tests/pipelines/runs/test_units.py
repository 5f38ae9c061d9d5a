"""What a pipeline is sent of a step does not grow with its units: numbers instead of a list, folders by place
and digest."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from answermill.pipelines.engine.protocol import Units
from answermill.pipelines.errors import IO, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import Folder, PartWriter
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, made_step, report, reports_of


def test_each_unit_without_a_report_comes_once(tmp_path: Path) -> None:
    for unit in (0, 3):
        reports_of(tmp_path).write(report(unit))
    sent = pickle.dumps(Units.first(1_000_000, but=reports_of(tmp_path)))
    assert len(sent) < 500
    assert list(Units.first(5, but=reports_of(tmp_path)).pending()) == [1, 2, 4]
    assert list(Units.first(3).pending()) == [0, 1, 2]


def write_questions(run: Path, *texts: str) -> Folder[Question]:
    step = made_step(run, "retrieve", {"questions": Question}, {}, {name: name for name in texts})
    Commit(step).begin()
    writer = PartWriter(run / "questions", Question, 0)
    with writer:
        writer.write([Question(text, text) for text in texts])
    Commit(step).finish(Outcome.of(Rows(), [report(0, {"questions": writer.parts})]))
    return QUESTIONS.open(run)


def test_a_worker_reads_the_manifest_itself_and_refuses_another_folder(tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "run", "who?", "why?")
    sent = pickle.dumps(folder)
    assert len(sent) < 1_000
    assert [question.text for question in pickle.loads(sent).read()] == ["who?", "why?"]  # as Beam does
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    write_questions(tmp_path / "run", "where?")
    with pytest.raises(
        JobError, match=r"sees another .*questions than the command: do all workers see that folder"
    ) as e:
        pickle.loads(sent).parts  # noqa: B018
    assert e.value.code == IO


def test_a_step_is_sent_without_its_inputs(tmp_path: Path) -> None:
    step = made_step(
        tmp_path, "ingest", {}, {"min_words": 5}, {f"{n}.warc.gz": "7 bytes" for n in range(1_000)}
    )
    sent = pickle.dumps(step)
    assert len(sent) < 1_000
    assert pickle.loads(sent).work == step.work
