"""RUN/packs: choice of the tasks, guidelines and scores that the packs of a run hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

from answermill.files.store import publishing
from answermill.pipelines.config.job_file import Annotate, Job
from answermill.pipelines.data.annotation_tools import TOOLS
from answermill.pipelines.data.annotation_tools.tool import Model
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.annotate import ANNOTATE, PACK_SUMMARY, PACKS, TASKS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.steps.annotate import packs
from answermill.schemas.annotation import Task


def read_guidelines(job: Job, settings: Annotate) -> str:
    """The guidelines that packs carry. Raises JobError: 66 if their file is missing, 65 if it is not
    UTF-8."""
    if settings.guidelines is None:
        return packs.default_guidelines()
    path = job.path(settings.guidelines)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise JobError(f"annotate.guidelines: {path}: no such file", INPUT_MISSING) from None
    except UnicodeDecodeError as e:
        raise JobError(f"annotate.guidelines: {path}: not UTF-8: {e}", BAD_DATA) from e


def write_packs(job: Job, settings: Annotate, run: Path) -> bool:
    """Write packs/ with all tasks, or with `since` those that the earlier run did not have; False if the
    packs exist.

    Raises JobError (73) if packs/ holds packs of other tasks or settings: people may have filled them in.
    """
    guidelines, tools = read_guidelines(job, settings), settings.tools or list(TOOLS)
    tasks = TASKS.open(run)
    earlier = TASKS.open(job.path(settings.since)) if settings.since is not None else None
    decisive = {
        "tasks": tasks.digest(),
        "since": earlier.digest() if earlier is not None else None,
        "guidelines": text_digest(guidelines),
        "tools": tools,
        **settings.model_dump(include={"predictions", "tasks_per_file"}),
    }
    if packs.are_written(run / PACKS, decisive):
        return False

    scored = SCORED.open(run).manifest
    plan = "+".join(map(stage_name, scored.settings["stages"]))
    model = Model(
        f"{plan} {scored.fingerprint[:8]}", unbounded=ANNOTATE.counts_of(tasks.manifest).scores_beyond_0_1 > 0
    )
    known = _known_tasks(earlier) if earlier is not None else frozenset()
    new = (task for task in tasks.read() if (task.task_id, task.text_hash) not in known)
    options = packs.PackOptions(guidelines, model if settings.predictions else None, settings.tasks_per_file)
    with publishing(run / PACKS, PACK_SUMMARY) as folder:
        packs.write(folder, new, tools, options, decisive)

    return True


def _known_tasks(earlier: Folder[Task]) -> frozenset[tuple[str, str]]:
    """(task_id, text_hash) of all tasks of an earlier run."""
    batches = (
        b
        for part in earlier.parts
        for b in read_batches(earlier.path, part, ["task_id", "text_hash"], rows=8_192)
    )
    return frozenset(
        pair
        for b in batches
        for pair in zip(b["task_id"].to_pylist(), b["text_hash"].to_pylist(), strict=True)
    )


def text_digest(*texts: str) -> str:
    """16 hex digits that stand for the texts: ids of tasks, and of the guidelines in packs."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
