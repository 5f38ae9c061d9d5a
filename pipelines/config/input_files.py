"""The files that a job names: refused if they are missing, or of the other kind, before anything that takes
long is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import INPUT_MISSING, JobError, check_file, check_folder
from answermill.ranking.entry import file_keys, shipped_checkpoints
from answermill.ranking.rerankers.registry import find

_FILES = (
    ("ingest", "domain_list"),
    ("ingest", "block_list"),
    ("index", "faiss"),
    ("index", "faiss_ids"),
    ("retrieve", "questions"),
    ("annotate", "controls"),
    ("annotate", "guidelines"),
    ("propagate", "labels"),
)
"""(step, key of its section) of each setting that names one file. Inputs and the files of stages are not
among them."""
_FOLDERS = (
    ("ingest", "since"),
    ("index", "since"),
    ("index", "lucene"),
    ("rerank", "since"),
    ("annotate", "since"),
)
"""(step, key of its section) of each setting that names one folder. Checkpoints are not among them."""


def check_files(job: Job, steps: Sequence[str]) -> None:
    """Raises JobError (66) if a file or folder that the job names for one of the steps is missing, or the
    other kind is in its place."""
    for key, pattern in _inputs(job) if "ingest" in steps else ():
        if not (path := job.path(pattern)).exists():
            raise JobError(f"{key}: {path}: no such file or folder", INPUT_MISSING)
    for step, key, written in _files(job):
        if step in steps:
            check_file(job.path(written), f"{key}:")
    for step, key, written in _folders(job):
        if step in steps:
            check_folder(job.path(written), f"{key}:")


def _inputs(job: Job) -> Iterator[tuple[str, str]]:
    """(key, path as it is written) of each file or folder that ingest is to read, without patterns."""
    if job.ingest is None:
        return
    index = job.ingest.crawl_index
    named = {
        "ingest.input": job.ingest.input,
        "ingest.crawl_index.files": index.files if index is not None else (),
    }
    for key, patterns in named.items():
        yield from ((key, pattern) for pattern in patterns if not any(mark in pattern for mark in "*?["))


def _files(job: Job) -> Iterator[tuple[str, str, str]]:
    """(step, key, path as it is written) of each file that the job names beside its inputs."""
    yield from _written(job, _FILES)
    for number, stage in enumerate(job.rerank.stages if job.rerank is not None else ()):
        for key in file_keys(type(stage)):
            if (written := getattr(stage, key)) is not None:
                yield "rerank", f"rerank.stages.{number}.{key}", written


def _folders(job: Job) -> Iterator[tuple[str, str, str]]:
    """(step, key, path as it is written) of each folder that the job names."""
    yield from _written(job, _FOLDERS)
    shipped = shipped_checkpoints()
    for number, stage in enumerate(job.rerank.stages if job.rerank is not None else ()):
        is_ours = find(stage.reranker).checkpoint is not None and stage.checkpoint not in shipped
        if stage.checkpoint is not None and is_ours:
            yield "rerank", f"rerank.stages.{number}.checkpoint", stage.checkpoint


def _written(job: Job, keys: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    for step, name in keys:
        if written := getattr(job.section(step), name, None):
            yield step, f"{step}.{name}", written
