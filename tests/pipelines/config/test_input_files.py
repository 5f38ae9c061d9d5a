"""A file that a job names is missed before anything that takes long is loaded, whichever key names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.pipelines.config.input_files import check_files
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.specs.registry import job_steps

JOB = """
[ingest]
input = ["*.jsonl"]
[index]
[retrieve]
questions = "there"
[[rerank.stages]]
reranker = "overlap"
[annotate]
[propagate]
"""
KEYS = (
    "ingest.domain_list",
    "ingest.block_list",
    "ingest.since",
    "index.since",
    "index.faiss",
    "index.faiss_ids",
    "retrieve.questions",
    "rerank.since",
    "annotate.controls",
    "annotate.guidelines",
    "annotate.since",
    "propagate.labels",
)
BESIDE = {"index.faiss": ["index.faiss_ids=there"], "index.faiss_ids": ["index.faiss=there"]}
"""What a job needs beside a key."""


@pytest.mark.parametrize("key", KEYS)
def test_each_key_that_names_a_file_is_looked_at(key: str, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "there").touch()
    beside = BESIDE.get(key, [])
    check_files(load(tmp_path / "job.toml", [f"{key}=there", *beside]), list(job_steps()))
    job = load(tmp_path / "job.toml", [f"{key}=absent", *beside])
    with pytest.raises(JobError, match=f"{key}: {tmp_path / 'absent'}: no such file or folder") as e:
        check_files(job, list(job_steps()))
    assert e.value.code == INPUT_MISSING
    check_files(job, [step for step in job_steps() if step != key.partition(".")[0]])
