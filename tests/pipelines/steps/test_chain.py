"""Refusals of a step that cannot run: what it says, and that it removes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, JobError
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.registry import makers
from answermill.pipelines.steps.chain import check, foreseen, run_steps, steps_of
from answermill.pipelines.steps.retrieve.retrieve import foresee
from testing import sample_run


@pytest.mark.parametrize(
    ("step", "first", "steps"),
    [
        ("rerank", "retrieved", "ingest, index and retrieve"),
        ("annotate", "scored", "ingest, index, retrieve and rerank"),
        ("retrieve", "shards", "ingest and index"),
    ],
)
def test_a_step_names_all_the_steps_that_must_run_first(
    step: str, first: str, steps: str, tmp_path: Path
) -> None:
    job, run = load(copy_to(tmp_path)), tmp_path / "run"
    with pytest.raises(JobError) as e:
        check(job, run, [step])
    assert e.value.code == INPUT_MISSING
    assert str(e.value).startswith(
        f"{step} reads {run / first}: {steps} must run first; `answermill run JOB.toml --out {run}`"
    )


def test_a_job_that_cannot_run_them_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[[rerank.stages]]\nreranker = 'overlap'\n")
    with pytest.raises(
        JobError,
        match=r"the job has no \[ingest\], \[retrieve\]: add it, or copy retrieved from a run that has it",
    ):
        check(load(tmp_path / "job.toml"), tmp_path / "run", ["rerank"])

    (tmp_path / "job.toml").write_text("[retrieve]\nquestions = 'q.tsv'\n")
    says = (
        r"ingest must run first; the job has no \[ingest\]: add it, or copy passages from a run that has it"
    )
    with pytest.raises(JobError, match=says):
        check(load(tmp_path / "job.toml"), tmp_path / "run", ["index"])


def test_the_makers_of_folders_come_in_the_order_of_the_steps() -> None:
    assert makers(["scored", "documents", "passages"]) == ["ingest", "rerank"]
    assert makers([]) == []


def test_a_dry_run_says_of_each_step_what_it_would_do_and_what_a_redo_removes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "text": "Nothing at all."}))
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["a.jsonl"]\nmin_words = 1\n')
    job, run = load(tmp_path / "job.toml"), tmp_path / "run"
    (reads,) = foreseen(job, run, ["ingest"])
    assert reads.startswith("dry run    ingest reads 1 file, ") and not run.exists()

    list(run_steps(job, run, ["ingest"], ()))
    assert list(foreseen(job, run, ["ingest"])) == ["dry run    ingest is complete, and skipped"]
    removal, again = foreseen(job, run, ["ingest"], redo="ingest")
    assert removal.startswith("dry run    redo ingest; removes documents (1 rows), passages (1 rows)")
    assert again == reads and DOCUMENTS.open(run).rows == 1

    other = load(tmp_path / "job.toml", ["ingest.min_words=2"])
    with pytest.raises(JobError) as e:
        list(foreseen(other, run, ["ingest"]))
    assert e.value.code == OUTPUT_EXISTS, "as the step itself would be"


def test_a_dry_run_counts_the_questions(tmp_path: Path) -> None:
    job = load(copy_to(tmp_path), ["retrieve.question_rules=well_formed", "retrieve.question_words=[3, 9]"])
    asked = foresee(job)
    assert re.fullmatch(r"asks \d+ questions of 90 given; refuses .+", asked), asked


def test_a_step_that_is_refused_removes_nothing_of_what_it_would_redo(tmp_path: Path) -> None:
    text = "The quick brown fox jumps over the lazy dog while the river runs slowly to the wide grey sea."
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "text": text}))
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["a.jsonl"]\nmin_words = 5\n')
    job, run = load(tmp_path / "job.toml"), tmp_path / "run"
    list(run_steps(job, run, ["ingest"], ()))
    before = sorted(run.rglob("*"))

    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(JobError, match=r"'a\.jsonl' is no file") as e:
        list(run_steps(job, run, ["ingest"], (), redo="ingest"))
    assert e.value.code == INPUT_MISSING
    assert sorted(run.rglob("*")) == before and DOCUMENTS.open(run).rows == 1


def test_a_redo_removes_nothing_if_a_step_before_it_is_another_jobs(tmp_path: Path) -> None:
    """It would end with 73 before it came to the step whose output is gone by then."""
    run = sample_run.unpack(tmp_path / "sample")
    before = sorted(run.rglob("*"))
    other = load(tmp_path / "sample/job.toml", ["retrieve.depth=7"])
    with pytest.raises(JobError, match="another job: settings depth = 20 there, 7 here") as e:
        list(run_steps(other, run, steps_of(other), (), redo="rerank"))
    assert e.value.code == OUTPUT_EXISTS
    assert sorted(run.rglob("*")) == before
