"""Commands that run a job or one of its steps, and that show what a job file and a run folder hold."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.parameters import BeamOptions, JobFile, LocalOut, Out, Overrides, Run, Running, write_lines
from answermill.pipelines.config.step_registry import STEPS, folders
from answermill.pipelines.runs.watch import log_lines

GROUP = Group("Jobs", sort_key=1)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What others learn of a command while it works, and at its end."""

    log_format: Annotated[
        Literal["text", "json"],
        Parameter(
            help="Lines on stderr: text, with a bar on a terminal; json: every line an object with time, level and message."
        ),
    ] = "text"
    metrics: Annotated[
        Path | None,
        Parameter(
            help="Write the run's figures to this file for Prometheus (node_exporter's textfile collector): when a step ends, "
            "every half minute, and at the end, with the exit code."
        ),
    ] = None
    report: Annotated[
        bool,
        Parameter(
            help="Write report.html and report.json at the end; a command of one step does so where they are there already, so "
            "that they say what the folders hold now."
        ),
    ] = True


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a run looks at, or removes, before its first step."""

    redo: Annotated[
        str | None,
        Parameter(
            help="A step that is to be done again, e.g. rerank: its output, and what later steps have made of it, is listed, "
            "removed and made again. packs/ and collected/ stay."
        ),
    ] = None
    verify: Annotated[
        str | None,
        Parameter(
            help="A step of whose output every byte is compared with its SHA-256 first, e.g. index: changed files are removed "
            "and made again, in index, retrieve and rerank without the others."
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Check the job, and say what it will read and fetch: files, records, requests, bytes. Reads lists, indexes "
            "and the sizes of files; runs and writes nothing.",
        ),
    ] = False


def run(
    job: JobFile,
    *,
    out: Out,
    beginning: Beginning = Beginning(),
    settings: Overrides = (),
    telling: Telling = Telling(),
    command: Running,
    beam_options: BeamOptions = (),
) -> None:
    """Run the whole job: every step that it has a section for, in order; then write its report, report.html."""
    if beginning.dry_run:
        _foresee(job, out, settings)
        return
    redo, verify = beginning.redo, beginning.verify
    run_job(job, out, settings, beam_options, redo=redo, verify=verify, observed=(telling, command))
    if telling.report:
        _write_report(out)


def step_command(name: str, about: str) -> Callable[..., None]:
    """The command that runs one step of a job; `about` is its help text."""

    def one_step(
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
        telling: Telling = Telling(),
        command: Running,
        beam_options: BeamOptions = (),
    ) -> None:
        again, compared = name if redo else None, name if verify else None
        run_job(job, out, settings, beam_options, name, again, compared, (telling, command))
        if telling.report:
            _renew_report(out)

    one_step.__name__, one_step.__doc__ = name, about
    return one_step


def sample(
    *,
    out: LocalOut = Path("sample"),
    plan: Annotated[
        Literal["default", "full"],
        Parameter(help="default: job.toml, into OUT/run; full: full.toml, with PEASI's two stages too, into OUT/run-full."),
    ] = "default",
    settings: Overrides = (),
    telling: Telling = Telling(),
    command: Running,
    beam_options: BeamOptions = (),
) -> None:
    """Write the sample web, its questions, labels and job files into --out, run a job there, and show three answers."""
    from answermill.pipelines.data.sample import PLANS, copy_to, edited

    job = copy_to(out).with_name(PLANS[plan])
    run = out / ("run" if plan == "default" else f"run-{plan}")
    if own := edited(out):
        write_lines([f"not the sample's, and kept as they are: {', '.join(map(str, own))}"])
    run_job(job, run, settings, beam_options, observed=(telling, command))
    if telling.report:
        _write_report(run)
    from answermill.pipelines.data.sample.best_answers import best_answers

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
    from answermill.pipelines.data.recipes import copy_to

    write_lines([f"written: {copy_to(name, out)}"])


def status(run: Run) -> None:
    """Show who works on a run and how far, and the rows and state of every step. Exits with 65 if a file is damaged or missing.

    A run is running, with its step, the rate, the time that is left, and the process, user and machine; stopped; stale, if its
    process is gone without a word; or complete. Any terminal can ask, on another machine too if it sees the folder.
    """
    from answermill.pipelines.errors import JobError
    from answermill.pipelines.runs.watch.live import line_of
    from answermill.pipelines.steps.chain import status as states

    rows, damage = [("step", "folder", "rows", "state")], None
    try:
        for row in states(run):
            rows.append(row)
    except JobError as e:
        if len(rows) == 1:
            raise
        damage = e
    write_lines([line_of(run, all(row[3].startswith(("complete", "not there")) for row in rows[1:]))])
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
        from answermill.pipelines.config.training_file import keys as training_keys

        listing = training_keys()
    else:
        from answermill.pipelines.config.job_file import keys as job_keys

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
    observed: tuple[Telling, Command] | None = None,
) -> None:
    """Run a job, or one step of it; writes a line for each step."""
    if observed is not None:
        log_lines.choose(observed[0].log_format)
    from answermill.pipelines.config.input_files import check_files
    from answermill.pipelines.config.job_file import load

    job = load(job_file, settings)
    check_files(job, [step] if step else list(STEPS))
    from answermill.pipelines.engine.runner import configure_logging
    from answermill.pipelines.steps.chain import run_steps, steps_of

    logging.disable(logging.NOTSET)  # the libraries are loaded
    configure_logging()
    metrics = observed[0].metrics if observed is not None else None
    ended = _metrics(metrics, out, observed[1]) if observed is not None and metrics is not None else None
    write_lines(run_steps(job, out, [step] if step else steps_of(job, out), beam_options, redo, verify, ended))
    sys.stdout.write(f"in {out}: `answermill status {out}` shows its folders, `answermill columns` their columns\n")


def _foresee(job_file: Path, out: Path, settings: Sequence[str]) -> None:
    """Write what the job's steps will read."""
    from answermill.pipelines.config.input_files import check_files
    from answermill.pipelines.config.job_file import load

    job = load(job_file, settings)
    check_files(job, list(STEPS))
    from answermill.pipelines.steps.chain import foreseen, steps_of

    write_lines(foreseen(job, out, steps_of(job, out)))


def _metrics(file: Path, out: Path, command: Command) -> Callable[[str, float], object]:
    """Begin the file of metrics; returns a function to call when a step ends."""
    from answermill.pipelines.runs.watch.metrics import MetricsFile
    from answermill.pipelines.runs.watch.progress import sinks

    metrics = MetricsFile(file, out)
    metrics.write()

    def end(code: int) -> None:
        sinks.remove(metrics.update)
        metrics.end(code)

    sinks.append(metrics.update)
    command.at_end.append(end)
    return metrics.end_step


def _renew_report(run: Path) -> None:
    """Write the report again, if there is one."""
    from answermill.pipelines.config.outputs import REPORT_PAGE

    if (run / REPORT_PAGE).is_file():
        _write_report(run)


def _write_report(run: Path) -> None:
    from answermill.pipelines.look.report.run_report import write_report

    write_lines([write_report(run)])
