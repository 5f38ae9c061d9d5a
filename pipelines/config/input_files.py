"""The files that a job names: refused if they are missing before anything that takes long is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.ranking.entry import file_keys, shipped_checkpoints
from answermill.ranking.rerankers.registry import find

_PLAIN = (
    ("ingest", "domain_list"),
    ("ingest", "block_list"),
    ("ingest", "since"),
    ("index", "since"),
    ("index", "faiss"),
    ("index", "faiss_ids"),
    ("index", "lucene"),
    ("retrieve", "questions"),
    ("rerank", "since"),
    ("annotate", "controls"),
    ("annotate", "guidelines"),
    ("annotate", "since"),
    ("propagate", "labels"),
)
"""(step, key of its section) of each setting that names one file or folder. Inputs and the files of stages
are not among them."""


def check_files(job: Job, steps: Sequence[str]) -> None:
    """Raises JobError (66) if a file or folder that the job names for one of the steps is missing."""
    for step, key, written in _named(job):
        path = job.path(written)
        if step in steps and not path.exists():
            raise JobError(f"{key}: {path}: no such file or folder", INPUT_MISSING)


def _named(job: Job) -> Iterator[tuple[str, str, str]]:
    """(step, key, path as it is written) of each file that the job names."""
    for key, patterns in _patterns(job):
        yield from (
            ("ingest", key, pattern) for pattern in patterns if not any(mark in pattern for mark in "*?[")
        )

    for step, name in _PLAIN:
        if written := getattr(job.section(step), name, None):
            yield step, f"{step}.{name}", written

    shipped = shipped_checkpoints()
    for number, stage in enumerate(job.rerank.stages if job.rerank is not None else ()):
        is_ours = find(stage.reranker).checkpoint is not None and stage.checkpoint not in shipped
        if stage.checkpoint is not None and is_ours:
            yield "rerank", f"rerank.stages.{number}.checkpoint", stage.checkpoint
        for key in file_keys(type(stage)):
            if (written := getattr(stage, key)) is not None:
                yield "rerank", f"rerank.stages.{number}.{key}", written


def _patterns(job: Job) -> Iterator[tuple[str, Sequence[str]]]:
    if job.ingest is not None:
        yield "ingest.input", job.ingest.input
        if job.ingest.crawl_index is not None:
            yield "ingest.crawl_index.files", job.ingest.crawl_index.files
