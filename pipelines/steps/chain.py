"""The whole job: every step that it has settings for, in order; and what a run folder holds.

All that can be refused is refused first, on this machine, before any worker starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pipelines.annotate import collected_folder, tasks
from pipelines.config.job_file import Job
from pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, JobError
from pipelines.execution.lock import claimed
from pipelines.execution.parquet_folder import read_manifest
from pipelines.execution.step import WORK, Reports
from pipelines.propagate import propagate
from pipelines.steps import index, ingest, rerank, retrieve
from schemas.record import Record

STEPS: dict[str, Callable[[Job, Path, Sequence[str]], str]] = {
    "ingest": ingest.ingest,
    "index": index.index,
    "retrieve": retrieve.retrieve,
    "rerank": rerank.rerank,
    "annotate": tasks.annotate,
    "propagate": propagate.run_step,
}
FOLDERS: dict[str, Mapping[str, type[Record]]] = {
    "ingest": ingest.OUTPUTS,
    "index": index.OUTPUTS,
    "retrieve": retrieve.OUTPUTS,
    "rerank": rerank.OUTPUTS,
    "annotate": tasks.OUTPUTS,
    "collect": collected_folder.OUTPUTS,
    "propagate": propagate.OUTPUTS,
}
"""The folders that each step and `collect` write, and the record that each holds."""


def steps_of(job: Job, run: Path | None = None) -> list[str]:
    """The steps that the job has settings for: shards are built where questions are to be retrieved, and labels propagated
    where they are given, or stand in the run folder by now."""
    wanted = {
        "ingest": job.ingest,
        "index": job.retrieve,
        "retrieve": job.retrieve,
        "rerank": job.rerank,
        "annotate": job.annotate,
        "propagate": job.propagate if propagate.is_ready(job, run) else None,
    }
    return [name for name in STEPS if wanted[name] is not None]


def check(job: Job, run: Path, steps: Sequence[str]) -> None:
    """Refuse what would fail later: input missing, tables unreadable, a reranker unknown, no Java, no model, output in the way.

    Raises JobError, JavaMissing or ModelMissing, with what to type.
    """
    if run.exists() and not run.is_dir():
        raise JobError(f"--out {run} is a file; give a folder", OUTPUT_EXISTS)
    if "ingest" in steps:
        ingest.step(job, run).is_complete()
    if "retrieve" in steps:
        retrieve.choose_questions(job)
    if "rerank" in steps:
        rerank.check_stages(job)
    if "annotate" in steps:
        tasks.check(job)
    if "propagate" in steps[1:]:  # alone it refuses by itself before any worker starts
        propagate.check(job, run)
    if {"index", "retrieve"} & set(steps):
        retrieve.check_engines(job)


def run_steps(job: Job, run: Path, steps: Sequence[str], beam_options: Sequence[str]) -> Iterator[str]:
    """Check, then run the steps in order; yields each one's summary line as it ends.

    Raises JobError (73) where another process is writing into the folder; else as `check` and the steps do.
    """
    check(job, run, steps)
    with claimed(run):
        for name in steps:
            yield STEPS[name](job, run, beam_options)


def status(run: Path) -> Iterator[tuple[str, str, str, str]]:
    """What a run folder holds: (step, folder, rows, state) per folder. Raises JobError (66) where there is no such folder."""
    if not run.is_dir():
        raise JobError(f"no folder {run}; `answermill run JOB.toml --out {run}` makes it", INPUT_MISSING)
    for name, folders in FOLDERS.items():
        done = Reports(run / WORK / name).count()
        for folder in folders:
            manifest = read_manifest(run / folder)
            if manifest is not None:
                yield (
                    name,
                    folder,
                    f"{manifest.rows:,}",
                    f"complete, {len(manifest.parts)} part{'s'[: len(manifest.parts) != 1]}",
                )
            else:
                yield (
                    name,
                    folder,
                    "",
                    f"running or stopped, {done} units done" if (run / WORK / name).is_dir() else "not there",
                )
