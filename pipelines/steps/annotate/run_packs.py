"""RUN/packs, and those of further batches: choice of the tasks, guidelines and scores that packs hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from answermill.files.store import publishing
from answermill.pipelines.config.job_file import Annotate, Job
from answermill.pipelines.data.annotation_tools import TOOLS
from answermill.pipelines.data.annotation_tools.tool import Model
from answermill.pipelines.errors import BAD_DATA, JobError, check_file
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.annotate import (
    ANNOTATE,
    PACK_SUMMARY,
    PACKS,
    TASKS,
)
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.steps.annotate import packs
from answermill.pipelines.steps.annotate.deal import deal
from answermill.schemas.annotation import Task


def read_guidelines(job: Job, settings: Annotate) -> str:
    """The guidelines that packs carry. Raises JobError: 66 if their file is missing, 65 if it is not
    UTF-8."""
    if settings.guidelines is None:
        return packs.default_guidelines()
    path = job.path(settings.guidelines)
    check_file(path, "annotate.guidelines:")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise JobError(f"annotate.guidelines: {path}: not UTF-8: {e}", BAD_DATA) from e


def refuse_other_packs(job: Job, settings: Annotate, run: Path) -> None:
    """Raise JobError (73) if the batch's packs/ holds packs of other tasks or settings than these: people may
    have filled them in."""
    packs.are_written(ANNOTATE.place(run, settings.batch) / PACKS, _decisive(job, settings, run))


def write_packs(job: Job, settings: Annotate, run: Path) -> bool:
    """Write the batch's packs/ with all its tasks but those of earlier batches, and with `since` those of the
    earlier run; False if the packs exist. Raises JobError as `refuse_other_packs`."""
    place = ANNOTATE.place(run, settings.batch)
    decisive = _decisive(job, settings, run)
    if packs.are_written(place / PACKS, decisive):
        return False

    guidelines, tasks = read_guidelines(job, settings), TASKS.open(place)
    scored = SCORED.open(run).manifest
    plan = "+".join(map(stage_name, scored.settings["stages"]))
    model = Model(
        f"{plan} {scored.fingerprint[:8]}", unbounded=ANNOTATE.counts_of(tasks.manifest).scores_beyond_0_1 > 0
    )
    known = _known_tasks([*_since(job, settings), *_earlier(settings, run)])
    new = (task for task in tasks.read() if (task.task_id, task.text_hash) not in known)
    dealt = None
    if settings.people:
        values = _values([tasks], "task_id", "text_hash", "annotators")
        to_deal = ((task_id, judges) for task_id, text, judges in values if (task_id, text) not in known)
        dealt = deal(to_deal, settings.people, settings.seed)
    options = packs.PackOptions(guidelines, model if settings.predictions else None, settings.tasks_per_file)
    with publishing(place / PACKS, PACK_SUMMARY) as folder:
        packs.write(folder, new, decisive["tools"], options, decisive, dealt=dealt)

    return True


def _decisive(job: Job, settings: Annotate, run: Path) -> dict[str, Any]:
    """All that decides the content of the packs of the batch, whose tasks are complete."""
    since, earlier = ([tasks.digest() for tasks in _since(job, settings)], _earlier(settings, run))
    people = {"people": sorted(settings.people), "seed": settings.seed} if settings.people else {}
    return {
        "tasks": TASKS.open(ANNOTATE.place(run, settings.batch)).digest(),
        "since": "+".join(since) or None,
        "guidelines": text_digest(read_guidelines(job, settings)),
        "tools": settings.tools or list(TOOLS),
        **settings.model_dump(include={"predictions", "tasks_per_file"}),
        **people,
    } | ({"batches": [tasks.digest() for tasks in earlier]} if earlier else {})


def _since(job: Job, settings: Annotate) -> list[Folder[Task]]:
    """The tasks of the run that `since` names, of all its batches."""
    if settings.since is None:
        return []
    run = job.path(settings.since)
    return [TASKS.open(folder) for folder in ANNOTATE.places(run) or [run]]


def _earlier(settings: Annotate, run: Path) -> list[Folder[Task]]:
    """The tasks of the batches before this one."""
    return [TASKS.open(ANNOTATE.place(run, batch)) for batch in range(1, settings.batch)]


def _known_tasks(earlier: Iterable[Folder[Task]]) -> frozenset[tuple[str, str]]:
    """(task_id, text_hash) of all tasks of these folders."""
    return frozenset(_values(earlier, "task_id", "text_hash"))


def _values(folders: Iterable[Folder[Task]], *columns: str) -> Iterator[tuple[Any, ...]]:
    """Values of the tasks of these folders in these columns."""
    for tasks in folders:
        for part in tasks.parts:
            for batch in read_batches(tasks.path, part, columns, rows=8_192):
                yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)


def text_digest(*texts: str) -> str:
    """16 hex digits that stand for the texts: ids of tasks, and of the guidelines in packs."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
