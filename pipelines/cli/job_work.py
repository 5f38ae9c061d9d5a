"""Work of the commands that run a job or one of its steps: lines for each step, progress and metrics
meanwhile, and a report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from answermill.files.remote import as_path
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.parameters.arguments import NewFile
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.specs.registry import job_steps

if TYPE_CHECKING:
    from answermill.pipelines.config.job_file import Job
    from answermill.pipelines.engine.machines.machine import Machine
    from answermill.pipelines.runs.watch.failure_hook import OnFailure
    from answermill.pipelines.runs.watch.metrics import MetricsFile


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Lines, figures and pages about a command, during its work and at its end."""

    log_format: Annotated[
        Literal["text", "json"],
        Parameter(
            help="Lines of the command: text, with a bar on a terminal; json: every line an object with "
            "time, level and message."
        ),
    ] = "text"
    metrics: Annotated[
        NewFile,
        Parameter(
            help="Write the run's figures to this file for Prometheus (node_exporter's textfile collector): "
            "when a step ends, "
            "every half minute, and at the end, with the exit code."
        ),
    ] = None
    report: Annotated[
        bool,
        Parameter(
            help="Write report.html and report.json at the end; a command of one step does so where they "
            "are there already, so "
            "that they say what the folders hold now."
        ),
    ] = True
    on_failure: Annotated[
        str | None,
        Parameter(
            help="What is done if the command fails: a command for /bin/sh, or an http(s) address to which a "
            "JSON object is posted. Both get exit code, message, job, run and stage; a command as "
            "ANSWERMILL_CODE, _MESSAGE, _JOB, _RUN and _STAGE too. A stop (130, 143) is no failure."
        ),
    ] = None
    on_failure_timeout: Annotated[
        float | None, Parameter(help="Seconds after which --on-failure is given up; 30 if absent.")
    ] = None

    def arm(self, command: Command, job_file: Path, hook: OnFailure | None = None) -> None:
        """Let the command do what --on-failure says, or else a job's `hook`. Raises JobError
        (2) if its time is given alone; else as `Command.arm`."""
        if self.on_failure is None and self.on_failure_timeout is not None:
            raise JobError(
                "--on-failure-timeout belongs to --on-failure; a job's [on_failure] has its own timeout_s",
                USAGE,
            )
        if self.on_failure is not None or hook is not None:
            command.arm(self.on_failure, self.on_failure_timeout, hook, job_file)


DEFAULTS = Outlets()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Other machines that work on the same run."""

    join: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Share the run with all other commands that are given this option: type the same command on "
            "any number of machines that see --out, at any time. Each takes units of work from there; those "
            "of a machine that ends or is lost go on elsewhere. The bytes are those of one machine.",
        ),
    ] = False
    lapse: Annotated[
        float | None,
        Parameter(
            help="With --join: seconds without a sign of life after which this machine is lost to the "
            "others. They measure it by their own clocks. 120 if absent."
        ),
    ] = None

    def check(self, again: str | None, beam_options: Sequence[str]) -> None:
        """Raise JobError (2) if an option does not go with these. `again`: the step that is to run again."""
        if not self.join:
            if self.lapse is not None:
                raise JobError(
                    "--lapse is of machines that share the run; leave it out, or add --join", USAGE
                )
            return
        if again is not None:
            raise JobError(
                "--join does not go with --redo and --verify: give them to one machine, without --join, "
                "and let the others join when it has ended",
                USAGE,
            )
        if beam_options:
            raise JobError(
                "--join is for machines without an engine, so leave out what follows `--`: "
                f"{' '.join(beam_options)}",
                USAGE,
            )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class GateBars:
    """The most by which a night's run may differ from the last good one; 1 lets everything pass."""

    metric: Annotated[
        str, Parameter(help="The metric of --margin, among judged candidates, where both runs have labels.")
    ] = "P@1"
    margin: Annotated[
        float,
        Parameter(
            help="Most that the metric may fall by, from 0 to 1. More is refused if it is no chance: the "
            "95 % interval lies below 0, and p is at most 0.05."
        ),
    ] = 0.02
    max_changed: Annotated[
        float, Parameter(help="Share of the first answers that may be another text; needs no labels.")
    ] = 0.5
    max_fall: Annotated[
        float,
        Parameter(
            help="Share by which documents, passages, questions, retrieved passages, candidates and answered "
            "questions may fall."
        ),
    ] = 0.5
    max_rejects: Annotated[
        float,
        Parameter(
            help="Share of a step's records by which one reason for rejects may grow: 0.2 is from 5 % of the "
            "pages to 25 %."
        ),
    ] = 0.2


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class NightOptions:
    """The name of a night, and what it takes over, accepts and keeps."""

    night: Annotated[
        str | None,
        Parameter(
            help="Name of the night, and of its run below --runs; if absent the date, by UTC. Give it where "
            "a night may go on after midnight."
        ),
    ] = None
    since: Annotated[
        tuple[Literal["ingest", "index", "rerank", "annotate"], ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="Steps whose key `since` becomes the last good run, so that they do only what is new.",
        ),
    ] = ()
    keep: Annotated[
        int,
        Parameter(help="Nights that stay, the newest first, refused or not; the good one stays too."),
    ] = 7
    accept: Annotated[
        bool, Parameter(negative=(), help="Make the run the good one, whatever the gate says.")
    ] = False
    dry_run: Annotated[
        bool,
        Parameter(
            negative=(), help="Say what every stage and step would do, refuse or remove; change nothing."
        ),
    ] = False


BARS, NIGHT_DEFAULTS, ALONE = GateBars(), NightOptions(), Sharing()


@dataclass(frozen=True, slots=True)
class JobWork:
    """Work of a command on a job, in the run folder `out`."""

    job_file: Path
    out: Path
    settings: Sequence[str] = ()
    outlets: Outlets = DEFAULTS
    command: Command = field(default_factory=Command)
    latest: Callable[[], str | None] | None = None
    """The run for `since = "latest"`; None = the last good one beside `out`."""
    today: date | None = None
    """The date where the job names none; None = the one that the run began with, or today's."""

    @classmethod
    def of(
        cls, job_file: Path, out: Path, settings: Sequence[str], outlets: Outlets, command: Command
    ) -> JobWork:
        """The work of a command that was typed, with the job's date in place of `{date}` in `out`; what
        --on-failure says is done from here on."""
        outlets.arm(command, job_file)
        work = cls(job_file, out, settings, outlets, command)
        if "{date" in str(out):
            from answermill.pipelines.config import toml_file

            day = toml_file.date_of(toml_file.read(job_file, settings))
            work = replace(work, out=as_path(toml_file.dated(str(out), lambda: day)), today=day)
        command.folder = work.out
        return work

    def run(
        self,
        step: str | None = None,
        redo: str | None = None,
        verify: str | None = None,
        metrics: MetricsFile | None = None,
        sharing: Sharing = ALONE,
    ) -> bool:
        """Run the job, or one step of it; writes a line for each step. `metrics`: those that the command has
        begun already. Returns False if another machine, with which the run was shared, has led to its end, so
        that its report is that machine's to write."""
        log_lines.choose(self.outlets.log_format)
        metrics = metrics or self.metrics()  # first, so that the file says how a job that is refused ends
        job = self._checked([step] if step else list(job_steps()), begins=True)
        from answermill.pipelines.engine.runner import configure_logging
        from answermill.pipelines.runs.watch.clock import record
        from answermill.pipelines.steps.chain import run_steps, steps_of

        logging.disable(logging.NOTSET)  # the libraries are loaded
        configure_logging()

        steps = [step] if step else steps_of(job, self.out)
        machine = self._machine(job, sharing)
        options = self.command.beam_options

        def ended(name: str, seconds: float, had_work: bool) -> None:
            if had_work:
                record(as_path(self.out), name, seconds)
            if metrics is not None:
                metrics.end_step(name, seconds)

        write_lines(
            run_steps(job, self.out, steps, options, redo=redo, verify=verify, ended=ended, machine=machine)
        )
        columns = "`answermill columns` their columns"
        write_lines([f"in {self.out}: `answermill status {self.out}` shows its folders, {columns}"])
        return machine is None or machine.has_led

    def _machine(self, job: Job, sharing: Sharing) -> Machine | None:
        """This machine among those that share the run; None if it does not share. Raises JobError (2) if its
        lapse is too short."""
        if not sharing.join:
            return None
        from answermill.pipelines.engine.machines.machine import LAPSE_S, Machine

        return Machine(self.out, job, LAPSE_S if sharing.lapse is None else sharing.lapse)

    def redo(self, step: str | None) -> None:
        """Run the job, and if a step is named, all of that step again."""
        self.run(redo=step)

    def foresee(self, redo: str | None = None, verify: str | None = None) -> None:
        """Write lines on what each step of the job would do. Raises JobError (2) if there are options for an
        engine, or a step is to be verified; else as the steps would."""
        if options := self.command.beam_options:
            raise JobError(
                f"--dry-run does no work, so leave out what follows `--`: {' '.join(options)}", USAGE
            )
        if verify is not None:
            raise JobError("--dry-run reads no output, so leave out --verify", USAGE)
        log_lines.choose(self.outlets.log_format)
        job = self._checked(list(job_steps()))
        from answermill.pipelines.steps.chain import foreseen, steps_of

        write_lines(foreseen(job, self.out, steps_of(job, self.out), redo))

    def report(self, only_again: bool = False) -> None:
        """Write the run's report, unless the command was told to write none; with `only_again` only if there
        is one."""
        from answermill.pipelines.specs.registry import REPORT_PAGE

        if self.outlets.report and (not only_again or (self.out / REPORT_PAGE).is_file()):
            from answermill.pipelines.look.report.run_report import write_report

            write_lines([write_report(self.out)])

    def _checked(self, steps: Sequence[str], begins: bool = False) -> Job:
        """The job, after a check that its files for these steps are there. `begins`: its run begins now, with
        the date, the earlier run and the hook that the job asks for."""
        from answermill.pipelines.config.input_files import check_files
        from answermill.pipelines.config.job_file import load
        from answermill.pipelines.nights.run_begin import RunBegin

        begin = RunBegin(self.out, self.today)
        job = load(self.job_file, self.settings, self.latest or begin.latest, begin.day)
        if begins:
            self.outlets.arm(self.command, self.job_file, job.on_failure)
        check_files(job, steps)
        write_lines(begin.lines())
        if begins:
            begin.keep()
        return job

    def metrics(self) -> MetricsFile | None:
        """Begin the file of metrics, if one is named; it ends with the command."""
        if self.outlets.metrics is None:
            return None

        from answermill.pipelines.runs.watch.metrics import MetricsFile
        from answermill.pipelines.runs.watch.progress import sinks

        metrics = MetricsFile(self.outlets.metrics, as_path(self.job_file).absolute(), self.out)
        metrics.write()

        def end(code: int) -> None:
            sinks.remove(metrics.update)
            metrics.end(code)

        sinks.append(metrics.update)
        self.command.at_end.append(end)
        return metrics
