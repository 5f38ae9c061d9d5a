from __future__ import annotations

import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import UNAVAILABLE, JobError
from answermill.pipelines.steps.ingest import ingest


def job(folder, **settings):
    (folder / "pages.jsonl").write_text('{"text": "A page."}\n')
    return Job.model_validate({"ingest": {"input": [str(folder / "pages.jsonl")], **settings}})


def test_the_extractor_and_the_comments_decide_what_a_run_is(tmp_path):
    others = [{}, {"extractor": "resiliparse"}, {"extractor": "trafilatura"}, {"comments": True}]
    jobs = [job(tmp_path, **settings) for settings in others]
    assert len({ingest.step_of(each, tmp_path / "run").fingerprint() for each in jobs}) == len(jobs)


def test_an_extractor_that_is_not_installed_is_refused_before_work_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "find_spec", lambda name: None)
    with pytest.raises(JobError, match=r"pip install 'answermill\[trafilatura\]'") as refused:
        ingest.step_of(job(tmp_path, extractor="trafilatura"), tmp_path / "run")
    assert refused.value.code == UNAVAILABLE
