"""Refusals of a step that cannot run: what it says, and that it removes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.registry import makers
from answermill.pipelines.steps.chain import check, run_steps


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


def test_the_makers_of_folders_come_in_the_order_of_the_steps() -> None:
    assert makers(["scored", "documents", "passages"]) == ["ingest", "rerank"]
    assert makers([]) == []


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
