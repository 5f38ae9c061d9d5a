"""The job's list of hosts and addresses whose pages are refused: read by the command, and handed to the
workers in a file."""

from __future__ import annotations

from pathlib import Path

from answermill.files.atomic_files import write_text
from answermill.indexing.documents.block_list import BlockList
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.data.inputs.text_lines import lines
from answermill.pipelines.errors import BAD_DATA, JobError, check_file

_BLOCKED = "blocked.txt"
"""File of the step's work folder that holds the list's lines."""


def list_file(job: Job, settings: Ingest) -> Path | None:
    """The job's block list, if it has one. Raises JobError: 66 if it is missing, 65 if a line is wrong or the
    list is empty."""
    if not settings.block_list:
        return None
    path = job.path(settings.block_list)
    check_file(path, "ingest.block_list:")
    try:
        blocked = BlockList(text for _, text in lines(path))
    except ValueError as e:
        raise JobError(f"ingest.block_list: {path}: {e}", BAD_DATA) from e
    if not len(blocked):
        raise JobError(f"ingest.block_list: {path}: nothing is in it", BAD_DATA)
    return path


def write(job: Job, settings: Ingest, work: Path) -> None:
    """Write the list, which `list_file` has checked, for the workers."""
    if settings.block_list:
        write_text(work / _BLOCKED, "".join(f"{text}\n" for _, text in lines(job.path(settings.block_list))))


def read(work: Path) -> BlockList:
    """The list that `write` has written, for a worker; empty if the job has none."""
    path = work / _BLOCKED
    return BlockList((text for _, text in lines(path)) if path.is_file() else ())
