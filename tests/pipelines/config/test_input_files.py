"""A file or folder that a job names is missed before anything that takes long is loaded, whichever key
names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.pipelines.config.input_files import check_files
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.specs.registry import job_steps

JOB = """
[ingest]
input = ["*.jsonl"]
[index]
[retrieve]
questions = "file"
[[rerank.stages]]
reranker = "overlap"
[annotate]
[propagate]
"""
FILES = (
    "ingest.domain_list",
    "ingest.block_list",
    "index.faiss",
    "index.faiss_ids",
    "retrieve.questions",
    "annotate.controls",
    "annotate.guidelines",
    "propagate.labels",
)
FOLDERS = ("ingest.since", "index.since", "index.lucene", "rerank.since", "annotate.since")
BESIDE = {
    "index.faiss": ["index.faiss_ids=file"],
    "index.faiss_ids": ["index.faiss=file"],
    "index.lucene": ["index.shards=1"],
}
"""What a job needs beside a key."""


@pytest.mark.parametrize("key", [*FILES, *FOLDERS])
def test_each_key_that_names_a_file_or_a_folder_is_looked_at(key: str, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    right, wrong = ("file", "folder") if key in FILES else ("folder", "file")

    def job_with(written: str) -> Job:
        return load(tmp_path / "job.toml", [f"{key}={written}", *BESIDE.get(key, [])])

    check_files(job_with(right), list(job_steps()))
    for written, problem in (("absent", f": no such {right}"), (wrong, f" is a {wrong}; give a {right}")):
        with pytest.raises(JobError, match=f"^{key}: {tmp_path / written}{problem}") as e:
            check_files(job_with(written), list(job_steps()))
        assert e.value.code == INPUT_MISSING
    check_files(job_with("absent"), [step for step in job_steps() if step != key.partition(".")[0]])
