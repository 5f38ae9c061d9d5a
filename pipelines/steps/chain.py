"""The whole job: every step that it has settings for, in order; and what a run folder holds.

All that can be refused is refused first, on this machine, before any worker starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.config.job_file import Job
from pipelines.config.outputs import COLLECT, Outputs
from pipelines.config.step_registry import STEPS
from pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, JobError
from pipelines.execution.lock import claimed
from pipelines.execution.parquet_folder import read_manifest
from pipelines.execution.step import WORK, Reports


def steps_of(job: Job, run: Path | None = None) -> list[str]:
    """The steps that `answermill run` runs: those that the job has settings for.

    Shards are built if questions are to be retrieved, and labels are propagated if the job names a file or the run already has
    collected/labels.
    """
    return [name for name in STEPS if _is_wanted(name, job, run)]


def _is_wanted(name: str, job: Job, run: Path | None) -> bool:
    is_wanted = STEPS[name].load().is_wanted
    return job.section(name) is not None if is_wanted is None else is_wanted(job, run)


def check(job: Job, run: Path, steps: Sequence[str]) -> None:
    """Refuse what would fail later: input missing, tables unreadable, a reranker unknown, no Java, no model, output in the way.

    Raises JobError, JavaMissing or ModelMissing, with what to type.
    """
    if run.exists() and not run.is_dir():
        raise JobError(f"--out {run} is a file; give a folder", OUTPUT_EXISTS)
    for place, name in enumerate(steps):
        code = STEPS[name].load()
        if place or not code.refuses_first:
            code.check(job, run)


def run_steps(job: Job, run: Path, steps: Sequence[str], beam_options: Sequence[str]) -> Iterator[str]:
    """Check, then run the steps in order; yields each one's summary line as it ends.

    Raises JobError (73) if another process is writing into the folder; else as `check` and the steps do.
    """
    check(job, run, steps)
    with claimed(run):
        for name in steps:
            yield STEPS[name].load().run(job, run, beam_options)


def folders() -> dict[str, Outputs]:
    """Step → the folders that it writes, with the record of each; and so for `collect`, a command that follows `annotate`."""
    outputs = {}
    for name, step in STEPS.items():
        outputs[name] = step.outputs
        if name == "annotate":
            outputs["collect"] = COLLECT
    return outputs


def status(run: Path) -> Iterator[tuple[str, str, str, str]]:
    """What a run folder holds: (step, folder, rows, state) per folder. Raises JobError (66) if there is no such folder."""
    if not run.is_dir():
        raise JobError(f"no folder {run}; `answermill run JOB.toml --out {run}` makes it", INPUT_MISSING)
    for name, outputs in folders().items():
        begun = (run / WORK / name).is_dir()
        state = f"running or stopped, {Reports(run / WORK / name).count()} units done" if begun else "not there"
        for folder in outputs:
            manifest = read_manifest(run / folder)
            if manifest is None:
                yield name, folder, "", state
            else:
                parts = f"{len(manifest.parts)} part{'s'[: len(manifest.parts) != 1]}"
                yield name, folder, f"{manifest.rows:,}", f"complete, {parts}"
