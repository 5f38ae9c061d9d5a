"""`Run`: what a run folder holds by its manifests, each of which is read once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.candidates import CANDIDATES, CandidatesCounts
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, PASSAGES, REJECTS, IngestCounts
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED, SCORED_REJECTS, RerankCounts
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVE, RETRIEVED, RetrieveCounts
from answermill.pipelines.specs.run import Run
from answermill.schemas.corpus import Question, Rejected
from tests.pipelines.look.report.written_run import commit

REJECT = Rejected("web.warc.gz", 7, "", "https://a.example/", "too_short", "3 words")
INGESTED = IngestCounts(pages=1, rejected={"too_short": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run whose one page was refused."""
    commit(tmp_path / "run", INGEST, {"rejects": [REJECT]}, INGESTED)
    return tmp_path / "run"


def test_a_folder_is_typed_rows_and_a_step_is_its_counts(path: Path) -> None:
    run = Run.open(path)
    assert list(run[REJECTS].read()) == [REJECT] and run[DOCUMENTS].rows == 0
    assert run.counts(INGEST) == INGESTED
    assert list(run.of(INGEST)) == ["documents", "passages", "rejects"] == list(run.manifests)
    rejects = run.get(REJECTS)
    assert rejects is not None and rejects.rows == 1
    assert run.is_complete(INGEST) and list(run.lacking(INGEST)) == [(INGEST, [])]


def test_what_was_not_begun_is_empty_and_asking_for_its_rows_says_what_to_type(path: Path) -> None:
    run = Run.open(path)
    assert run.get(SCORED) is None and run.of(RERANK) == {} and run.counts(RERANK) == RerankCounts()
    assert not run.is_complete(RERANK) and list(run.lacking(RERANK)) == []
    assert run.state(RERANK) == "has not run"
    advice = f"run `answermill rerank JOB.toml --out {path}` first"
    with pytest.raises(JobError, match=f"scored is not there or not complete; {re.escape(advice)}") as e:
        run[SCORED]
    assert e.value.code == INPUT_MISSING


def test_a_step_lacks_the_folders_that_it_has_not_committed_and_counts_nothing_yet(path: Path) -> None:
    (path / "passages" / MANIFEST).unlink()
    run = Run.open(path)
    assert not run.is_complete(INGEST) and list(run.lacking(INGEST)) == [(INGEST, ["passages"])]
    assert list(run.of(INGEST)) == ["documents", "rejects"] and run.counts(INGEST) == IngestCounts()


def test_a_folder_without_a_row_that_is_then_not_written_is_not_missed(path: Path) -> None:
    commit(path, RERANK, {}, RerankCounts(questions=1))
    (path / SCORED_REJECTS.name / MANIFEST).unlink()
    run = Run.open(path)
    assert run.is_complete(RERANK) and list(run.of(RERANK)) == [SCORED.name, ANSWERS.name]


def test_a_command_in_the_place_of_a_step_completes_it_and_counts_are_not_the_step_s(tmp_path: Path) -> None:
    counts = CandidatesCounts(questions=1, candidates=5)
    commit(tmp_path, CANDIDATES, {"questions": [Question("q", "Who?")]}, counts)
    run = Run.open(tmp_path)
    assert list(run.lacking(RETRIEVE)) == [(CANDIDATES, [])] and run.is_complete(RETRIEVE)
    assert run.counts(RETRIEVE) == RetrieveCounts() and run.counts(CANDIDATES).candidates == 5
    assert [row.text for row in run[QUESTIONS].read()] == ["Who?"] and run[RETRIEVED].rows == 0


def test_manifests_are_those_of_the_moment_in_which_it_was_opened(path: Path) -> None:
    run = Run.open(path)
    for folder in INGEST:
        (folder.path(path) / MANIFEST).unlink()
    assert run[REJECTS].rows == 1 and run.is_complete(INGEST)
    assert not Run.open(path).is_complete(INGEST)


def test_a_manifest_that_cannot_be_read_is_kept_as_an_error_with_what_to_type(path: Path) -> None:
    (path / "passages" / MANIFEST).write_text("{", encoding="utf-8")
    run = Run.open(path)
    assert run.unreadable.keys() == {"passages"} and run.get(PASSAGES) is None and not run.is_complete(INGEST)
    assert run[REJECTS].rows == 1, "other folders are read"
    for ask in (run.refuse_unreadable, lambda: run[PASSAGES]):
        with pytest.raises(JobError, match=r"not a manifest: .*--redo ingest") as e:
            ask()
        assert e.value.code == BAD_DATA


def test_counts_of_another_version_are_refused(path: Path) -> None:
    written = DOCUMENTS.manifest(path)
    assert written is not None
    (path / "documents" / MANIFEST).unlink()
    replace(written, counts={**written.counts, "planets": 9}).write(path / "documents")
    with pytest.raises(JobError, match="manifest of ingest has other counts than this version: planets") as e:
        Run.open(path).counts(INGEST)
    assert e.value.code == BAD_DATA


def test_a_folder_that_is_no_run_is_refused_and_one_that_has_begun_is_not(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"no folder .*/absent; `answermill run JOB.toml --out") as e:
        Run.open(tmp_path / "absent")
    assert e.value.code == INPUT_MISSING
    (tmp_path / "run").mkdir()
    with pytest.raises(JobError, match=r"no run in .*; `answermill run JOB.toml --out .*` makes one") as e:
        Run.open(tmp_path / "run").refuse_none()
    assert e.value.code == INPUT_MISSING

    step = Step(tmp_path / "run", INGEST, {}, {})
    Commit(step).begin()
    step.reports.write(Report(0, {}, INGESTED))
    run = Run.open(tmp_path / "run")
    run.refuse_none()
    assert run.state(INGEST) == "is running or was stopped, with 1 unit done" and not run.is_complete(INGEST)
