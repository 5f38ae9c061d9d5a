"""Commands that run a job or one of its steps, and that show what a job file and a run folder hold."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from pipelines.cli.parameters import BeamOptions, JobFile, LocalOut, Out, Overrides, Run, write_lines
from pipelines.config.step_registry import STEPS, folders

GROUP = Group("Jobs", sort_key=1)


def run(
    job: JobFile,
    *,
    out: Out,
    redo: Annotated[
        str | None,
        Parameter(
            help="A step that is to be done again, e.g. rerank: its output, and what later steps have made of it, is listed, "
            "removed and made again. packs/ and collected/ stay."
        ),
    ] = None,
    verify: Annotated[
        str | None,
        Parameter(
            help="A step of whose output every byte is compared with its SHA-256 first, e.g. index: changed files are removed "
            "and made again, in index, retrieve and rerank without the others."
        ),
    ] = None,
    settings: Overrides = (),
    beam_options: BeamOptions = (),
) -> None:
    """Run the whole job: every step that it has a section for, in order."""
    run_job(job, out, settings, beam_options, redo=redo, verify=verify)


def step_command(name: str, about: str) -> Callable[..., None]:
    """The command that runs one step of a job; `about` is its help text."""

    def command(
        job: JobFile,
        *,
        out: Out,
        redo: Annotated[
            bool, Parameter(negative=(), help="Remove the step's own output first; what later steps made of it stays.")
        ] = False,
        verify: Annotated[
            bool, Parameter(negative=(), help="Compare every byte of the step's output first; make changed files again.")
        ] = False,
        settings: Overrides = (),
        beam_options: BeamOptions = (),
    ) -> None:
        run_job(job, out, settings, beam_options, name, redo=name if redo else None, verify=name if verify else None)

    command.__name__, command.__doc__ = name, about
    return command


def sample(
    *,
    out: LocalOut = Path("sample"),
    plan: Annotated[
        Literal["default", "full"],
        Parameter(help="default: job.toml, into OUT/run; full: full.toml, with PEASI's two stages too, into OUT/run-full."),
    ] = "default",
    settings: Overrides = (),
    beam_options: BeamOptions = (),
) -> None:
    """Write the sample web, its questions, labels and job files into --out, run a job there, and show three answers."""
    from pipelines.sample import PLANS, copy_to, edited

    job = copy_to(out).with_name(PLANS[plan])
    run = out / ("run" if plan == "default" else f"run-{plan}")
    if own := edited(out):
        write_lines([f"not the sample's, and kept as they are: {', '.join(map(str, own))}"])
    run_job(job, run, settings, beam_options)
    from pipelines.sample.best_answers import best_answers

    write_lines(best_answers(run))


def recipe(
    name: Annotated[
        Literal["wqa", "peasi", "adapt"],
        Parameter(
            help="wqa: a job that builds a labelled set from a crawl; peasi: a training file for such a set; adapt: a training "
            "file that takes a shipped checkpoint to your own labels."
        ),
    ],
    *,
    out: Annotated[Path, Parameter(help="Folder to write NAME.toml into; it is created if it does not exist.")] = Path(),
) -> None:
    """Write a commented job or training file to start from."""
    from pipelines.jobs import copy_to

    write_lines([f"written: {copy_to(name, out)}"])


def status(run: Run) -> None:
    """Show the rows and the state of every step of a run. Exits with 65 if a file of it is damaged or missing."""
    from pipelines.errors import JobError
    from pipelines.steps.chain import status as states

    rows, damage = [("step", "folder", "rows", "state")], None
    try:
        for row in states(run):
            rows.append(row)
    except JobError as e:
        if len(rows) == 1:
            raise
        damage = e
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    write_lines(f"{step:<{widths[0]}}  {folder:<{widths[1]}}  {n:>{widths[2]}}  {state}" for step, folder, n, state in rows)
    if damage is not None:
        raise damage


def keys(
    *,
    kind: Annotated[Literal["job", "train"], Parameter(name="--of", help="The kind of file: job or train.")] = "job",
) -> None:
    """List every key of a job file, or of a training file, with its type, default and meaning."""
    if kind == "train":
        from pipelines.config.training_file import keys as training_keys

        listing = training_keys()
    else:
        from pipelines.config.job_file import keys as job_keys

        listing = job_keys()
    for key, value, default, meaning in listing:
        write_lines([key, f"    {value}, {default if default == 'required' else 'default ' + default}", f"    {meaning}"])


def columns() -> None:
    """Print the data dictionary: every column of every folder."""
    for folder, record in (item for outputs in folders().values() for item in outputs.items()):
        write_lines([f"{folder}/  {' '.join((record.__doc__ or '').split())}"])
        write_lines(f"    {name:<32} {kind:<26} {meaning}" for name, kind, meaning in record.describe())


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    steps = [step_command(step.name, step.about) for step in STEPS.values()]
    return [run, *steps, sample, recipe, status, keys, columns]


def run_job(
    job_file: Path,
    out: Path,
    settings: Sequence[str] = (),
    beam_options: Sequence[str] = (),
    step: str | None = None,
    redo: str | None = None,
    verify: str | None = None,
) -> None:
    """Run a job, or one step of it; writes a line for each step."""
    from pipelines.config.input_files import check_files
    from pipelines.config.job_file import load

    job = load(job_file, settings)
    check_files(job, [step] if step else list(STEPS))
    from pipelines.execution.runner import configure_logging
    from pipelines.steps.chain import run_steps, steps_of

    logging.disable(logging.NOTSET)  # the libraries are loaded
    configure_logging()
    write_lines(run_steps(job, out, [step] if step else steps_of(job, out), beam_options, redo, verify))
    sys.stdout.write(f"in {out}: `answermill status {out}` shows its folders, `answermill columns` their columns\n")
