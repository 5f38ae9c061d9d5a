"""The whole job: every step that it has settings for, in order.

All that can be refused is refused first, on this machine, before any worker starts.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.files.remote import as_path
from answermill.files.store import CACHE, remove_tree, store_of
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import StepCode, code_of
from answermill.pipelines.engine.machines.machine import Machine, together
from answermill.pipelines.engine.machines.members import MACHINES
from answermill.pipelines.engine.runner import refuse_wrong_options
from answermill.pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, USAGE, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.lock import claimed, is_alone
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.manifests.run_folder import committed, following
from answermill.pipelines.runs.step import state_of, work_folders
from answermill.pipelines.runs.watch.live import Live
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.registry import SPECS, job_steps, makers
from answermill.pipelines.specs.run import Run

COMPLETE = "(complete)"
"""End of the summary line of a step that was complete before."""


def steps_of(job: Job, run: Path | None = None) -> list[str]:
    """The steps that `answermill run` runs: those that the job has settings for.

    Shards are built if questions are to be retrieved, and labels are propagated if the job names a file or
    the run already has collected/labels.
    """
    return [name for name in job_steps() if _is_wanted(name, job, run)]


def _is_wanted(name: str, job: Job, run: Path | None) -> bool:
    is_wanted = _code(name).is_wanted
    return job.section(name) is not None if is_wanted is None else is_wanted(job, run)


def _code(name: str) -> StepCode:
    return code_of(SPECS[name])


def check(job: Job, run: Path, steps: Sequence[str], run_now: bool = False) -> Any:
    """Refuse what would fail later: input missing, tables unreadable, a reranker unknown, no Java, no model,
    output in the way.

    Returns the result of the first step's check, for its `StepCode.run_checked`.

    `run_now`: the steps run next, and nothing is removed before, so that a first one which begins with its
    own check is not checked twice.

    Raises JobError, JavaMissing or ModelMissing, with what to type.
    """
    if run.exists() and not run.is_dir():
        raise JobError(f"--out {run} is a file; give a folder", OUTPUT_EXISTS)
    checked = None
    for place, name in enumerate(steps):
        _check_steps_before(job, run, name, steps[:place])
        code = _code(name)
        if place or not (run_now and code.refuses_first):
            result = code.check(job, run)
            checked = checked if place else result
    return checked


def _run_step(job: Job, run: Path, name: str, beam_options: Sequence[str], checked: Any) -> str:
    """Run a step; return its summary line. `checked`: its check's result, None if other steps ran since."""
    code = _code(name)
    if checked is None or code.run_checked is None:
        return code.run(job, run, beam_options)
    return code.run_checked(job, run, beam_options, checked)


def foreseen(job: Job, run: Path, steps: Sequence[str], redo: str | None = None) -> Iterator[str]:
    """Lines on what `run_steps` would remove, and on what each step would do; nothing is run or written.

    Raises as `run_steps`: JobError (73) where the output of another job is in a step's way.
    """
    run = as_path(run).absolute()
    steps = _planned(job, steps, redo=redo)
    check(job, run, steps)
    removal = None
    if redo is not None and run.is_dir():
        _check_read(job, run, redo, steps[: steps.index(redo)])
        removal = _removal(job, run, redo, steps)
    if removal is not None:
        yield f"dry run    redo {removal.clauses()}"

    again = set[str](removal.steps if removal is not None else ())
    running = set[str]()
    for name in steps:
        # A step of which nothing is there can neither be complete nor in another job's way; one whose input
        # will be made is looked at then.
        place = _place(job, run, name)
        is_there = any(folder.manifest(place) is not None for folder in SPECS[name])
        waits = name in again or not running.isdisjoint(makers(SPECS[name].reads))
        if is_there and not waits and Commit(_code(name).step_of(job, run)).is_complete():
            yield f"dry run    {name} is complete, and skipped"
            continue
        running.add(name)
        yield f"dry run    {name} {_foreseen(job, run, name, name in again)}"


def _foreseen(job: Job, run: Path, name: str, is_again: bool) -> str:
    """Clauses on what a step that runs will do."""
    foresee = _code(name).foresee
    clauses = [foresee(job) if foresee is not None else "runs"]
    place = _place(job, run, name)
    if not is_again and place.is_dir() and work_folders(place, name):
        clauses.append(f"it {state_of(place, name)}, and goes on there")
    return "; ".join(clauses)


def _check_steps_before(job: Job, run: Path, name: str, planned: Sequence[str]) -> None:
    """Refuse a step that cannot begin before two or more others have run, or one that the job lacks, besides
    those that are planned to run before it. Another single one is refused by the step itself. Raises JobError
    (66) with all of them."""
    missing = [step for step in _missing_before(name, run) if step not in planned]
    without = [f"[{step}]" for step in missing if job.section(step) is None]
    if len(missing) < 2 and not without:
        return

    way_out = (
        f"the job has no {', '.join(without)}: add it, or copy {' and '.join(SPECS[name].reads)} from a run "
        "that has it"
        if without
        else f"`answermill run JOB.toml --out {run}` does them in order, {name}, and what else the job has"
    )
    steps = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    raise JobError(
        f"{name} reads {run / SPECS[name].reads[0]}: {steps} must run first; {way_out}", INPUT_MISSING
    )


def _missing_before(name: str, run: Path) -> list[str]:
    """The steps that must run before this one, in order: they write folders that are missing and are read."""
    missing = makers([folder for folder in SPECS[name].reads if not (run / folder / MANIFEST).exists()])
    needed = {*missing, *(step for maker in missing for step in _missing_before(maker, run))}
    return [step for step in job_steps() if step in needed]


def run_steps(
    job: Job,
    run: Path,
    steps: Sequence[str],
    beam_options: Sequence[str],
    *,
    redo: str | None = None,
    verify: str | None = None,
    ended: Callable[[str, float, bool], object] | None = None,
    machine: Machine | None = None,
) -> Iterator[str]:
    """Check, then run the steps in order; yield each one's summary line as it ends. `ended` is called with
    its name, its seconds, and True if it had work to do.

    `redo`: a step whose output is removed first, with what was made of it by the steps that now run; the
    first line yielded lists what is removed, before it is. `verify`: a step whose output is compared byte by
    byte before it runs; changed files, a line for each on stderr, are removed and made again. `machine`: this
    one among several that share the run; then neither of the two is given. Raises JobError: 2 if an
    option for Beam is wrong, 73 if another process is writing into the folder; else as `_planned`, `check`
    and the steps do.
    """
    run = as_path(run).absolute()  # workers may have another working directory
    CACHE.limit = round(job.workers.cache_gb * 1e9)
    store_of(run).check()
    refuse_wrong_options(beam_options)
    steps = _planned(job, steps, redo=redo, verify=verify)
    checked = check(job, run, steps, run_now=redo is None)

    def each_step() -> Iterator[str]:
        with Live(run) as live:
            for name in steps:
                live.begin(name)
                if machine is not None:
                    machine.begin_step(name)
                began = time.monotonic()
                if name == verify:
                    _remove_changed(job, run, name)
                has_look = name == steps[0] and (machine is None or not machine.has_followed)
                summary = _run_step(job, run, name, beam_options, checked if has_look else None)
                if is_alone(run):
                    _remove_leftovers(_place(job, run, name), name)
                if ended is not None:
                    ended(name, time.monotonic() - began, not summary.endswith(COMPLETE))
                yield summary

    if machine is not None:
        yield from together(machine, job, each_step)
        return

    with claimed(run):
        if is_alone(run):
            remove_tree(run / MACHINES)  # of machines that were all killed
        if redo is not None:
            _check_read(job, run, redo, steps[: steps.index(redo)])
            removal = _removal(job, run, redo, steps)
            yield removal.summary()
            removal.carry_out()
        yield from each_step()


def _removal(job: Job, run: Path, first: str, steps: Sequence[str]) -> Removal:
    """The removal for step `first` and for what this job makes of it in the run's own folders.

    Raises JobError (73) if people work on what was made of a folder that would be removed, such as packs/,
    and this job would make other rows; or if the step's output is a further batch.
    """
    places = {name: _place(job, run, name) for name in steps}
    if places[first] != run:
        raise JobError(
            f"--redo {first}: its output is in {places[first]}, where people may work; delete that folder, "
            "and leave out --redo",
            OUTPUT_EXISTS,
        )

    removal = Removal.of(run, first, [name for name in steps if places[name] == run])
    following_steps = steps[steps.index(first) :]
    worked_on = [
        places[name] / file.place
        for name in following_steps
        for file in SPECS[name].files
        if file.place and (places[name] / file.place).exists()
    ]
    for name in removal.steps if worked_on else ():
        if _makes_other_rows(job, run, name):
            adds = "".join(f"; or {SPECS[name].adds}" for name in following_steps if SPECS[name].adds)
            raise JobError(
                f"{worked_on[0]} was made of what --redo {first} would remove, and {name} has other settings "
                f"or inputs now; people may have worked there, so move it away first{adds}",
                OUTPUT_EXISTS,
            )
    return removal


def _check_read(job: Job, run: Path, step: str, before: Sequence[str]) -> None:
    """Refuse, before its output is removed, what the step would of what it reads, and another job's rows."""
    check_read = _code(step).check_read
    if check_read is not None:
        check_read(job, run)
    for name in before:
        if _makes_other_rows(job, run, name):
            Commit(_code(name).step_of(job, run)).refuse_other_job()


def _place(job: Job, run: Path, step: str) -> Path:
    place = _code(step).place
    return run if place is None else place(job, run)


def _makes_other_rows(job: Job, run: Path, step: str) -> bool:
    """True if the step's output is another job's. What cannot be read, and is therefore done again, counts as
    this job's."""
    with suppress(JobError):
        fingerprint = _code(step).step_of(job, run).fingerprint()
        manifests = (folder.manifest(run) for folder in SPECS[step])
        return any(manifest is not None and manifest.fingerprint != fingerprint for manifest in manifests)
    return False


def _planned(job: Job, steps: Sequence[str], **again: str | None) -> list[str]:
    """The steps in order, with those of the options `again`. Raises JobError: 2 if there is no such step, 78
    if the job has no section for it."""
    for option, step in again.items():
        if step is not None and step not in job_steps():
            raise JobError(f"--{option} {step}: the steps are {', '.join(job_steps())}", USAGE)
        if step is not None and step not in steps and job.section(step) is None:
            raise JobError(f"--{option} {step}: the job has no [{step}] section; add one", SETTINGS)
    return [name for name in job_steps() if name in {*steps, *again.values()}]


def _remove_changed(job: Job, run: Path, step: str) -> None:
    """Compare every byte of a step's output and remove the files that were changed, a line for each on
    stderr.

    Raises JobError (73), and removes nothing, if the output is another job's.
    """
    Commit(_code(step).step_of(job, run)).refuse_other_job()
    place = _place(job, run, step)
    for folder in SPECS[step]:
        manifest = folder.manifest(place)
        for wrong in manifest.remove_changed(place / folder.name) if manifest is not None else ():
            print_line(f"{wrong}; removed")


def _remove_leftovers(run: Path, step: str) -> None:
    """Remove what a command left that was killed after the last unit of a step, which is complete now: the
    work folder, and half-written files beside the step's folders, such as answers.jsonl."""
    for work in work_folders(run, step):
        remove_tree(work)
    for folder in SPECS[step]:
        manifest = folder.manifest(run)
        for part in manifest.beside if manifest is not None else ():
            for half_written in run.glob(f".{part.file}.*.tmp"):
                half_written.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Removal:
    """Removal of the output of a step and of what follows from it, so that both are made again. People's
    work, packs/ and collected/, stays."""

    run: Path
    steps: Sequence[str]
    """The step, and later ones that have made something of its output, in the order in which they run."""
    folders: Sequence[str]
    """Paths below the run folder, in the order in which they were written."""
    files: Sequence[str]
    """Files of the run folder that were written with them."""

    @classmethod
    def of(cls, run: Path, first: str, steps: Sequence[str]) -> Removal:
        """The removal for step `first`, and for later ones in `steps`.

        A folder of a later step whose manifest cannot be read is removed too: its sources are unknown.
        """
        outputs = {name: [folder.name for folder in SPECS[name]] for name in steps[steps.index(first) :]}
        followers = following(run, outputs[first]).keys() | Run.open(run).unreadable.keys()
        removed = [
            name for name, folders in outputs.items() if name == first or not followers.isdisjoint(folders)
        ]
        present = [folder for name in removed for folder in outputs[name] if (run / folder).is_dir()]
        manifests = committed(run)
        files = [part.file for name in present if name in manifests for part in manifests[name].beside]
        return cls(run, removed, present, files)

    def summary(self) -> str:
        """One line for people."""
        return f"redo       {self.clauses()}"

    def clauses(self) -> str:
        """The steps, and every folder that is removed, with its rows if it is complete."""
        manifests = committed(self.run)
        rows = [
            f"{name} ({manifests[name].rows:,} rows)" if name in manifests else name for name in self.folders
        ]
        return f"{', '.join(self.steps)}; removes {', '.join([*rows, *self.files]) or 'nothing'}"

    def carry_out(self) -> None:
        """Remove it all. The manifests go first, the last step's before those of the steps before it, so that
        a kill leaves a run whose complete folders were made of complete folders."""
        for folder in reversed(self.folders):
            (self.run / folder / MANIFEST).unlink(missing_ok=True)
        for name in self.steps:
            for work in work_folders(self.run, name):
                remove_tree(work)
        for file in self.files:
            (self.run / file).unlink(missing_ok=True)
        for folder in reversed(self.folders):
            _remove(self.run / folder)


def _remove(folder: Path) -> None:
    """Remove a folder, or the content of one that is a link, such as to a larger disk, so that the link
    stays."""
    if not store_of(folder).is_local:
        remove_tree(folder)
        return
    if not folder.is_symlink():
        shutil.rmtree(folder)
        return
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
