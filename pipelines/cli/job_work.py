"""Work of the commands that run a job or one of its steps: lines for each step, progress and metrics
meanwhile, and a report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from answermill.files.remote import as_path
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.parameters import write_lines
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.specs.registry import job_steps

if TYPE_CHECKING:
    from answermill.pipelines.config.job_file import Job


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Lines, figures and pages about a command, during its work and at its end."""

    log_format: Annotated[
        Literal["text", "json"],
        Parameter(
            help="Lines on stderr: text, with a bar on a terminal; json: every line an object with time, "
            "level and message."
        ),
    ] = "text"
    metrics: Annotated[
        Path | None,
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


DEFAULTS = Outlets()


@dataclass(frozen=True, slots=True)
class JobWork:
    """Work of a command on a job, in the run folder `out`."""

    job_file: Path
    out: Path
    settings: Sequence[str] = ()
    outlets: Outlets = DEFAULTS
    command: Command = field(default_factory=Command)

    def run(self, step: str | None = None, redo: str | None = None, verify: str | None = None) -> None:
        """Run the job, or one step of it; writes a line for each step."""
        log_lines.choose(self.outlets.log_format)
        job = self._checked([step] if step else list(job_steps()))
        from answermill.pipelines.engine.runner import configure_logging
        from answermill.pipelines.runs.watch.clock import record
        from answermill.pipelines.steps.chain import run_steps, steps_of

        logging.disable(logging.NOTSET)  # the libraries are loaded
        configure_logging()

        steps = [step] if step else steps_of(job, self.out)
        options, metrics = self.command.beam_options, self._metrics()

        def ended(name: str, seconds: float, had_work: bool) -> None:
            if had_work:
                record(as_path(self.out), name, seconds)
            if metrics is not None:
                metrics(name, seconds)

        write_lines(run_steps(job, self.out, steps, options, redo=redo, verify=verify, ended=ended))
        columns = "`answermill columns` their columns"
        write_lines([f"in {self.out}: `answermill status {self.out}` shows its folders, {columns}"])

    def redo(self, step: str | None) -> None:
        """Run the job, and if a step is named, all of that step again."""
        self.run(redo=step)

    def foresee(self) -> None:
        """Write lines on the inputs of the job's steps. Raises JobError (2) if there are options for an
        engine."""
        if options := self.command.beam_options:
            raise JobError(
                f"--dry-run does no work, so leave out what follows `--`: {' '.join(options)}", USAGE
            )
        job = self._checked(list(job_steps()))
        from answermill.pipelines.steps.chain import foreseen, steps_of

        write_lines(foreseen(job, self.out, steps_of(job, self.out)))

    def report(self, only_again: bool = False) -> None:
        """Write the run's report, unless the command was told to write none; with `only_again` only if there
        is one."""
        from answermill.pipelines.specs.registry import REPORT_PAGE

        if self.outlets.report and (not only_again or (self.out / REPORT_PAGE).is_file()):
            from answermill.pipelines.look.report.run_report import write_report

            write_lines([write_report(self.out)])

    def _checked(self, steps: Sequence[str]) -> Job:
        """The job, after a check that its files for these steps are there."""
        from answermill.pipelines.config.input_files import check_files
        from answermill.pipelines.config.job_file import load

        job = load(self.job_file, self.settings)
        check_files(job, steps)
        return job

    def _metrics(self) -> Callable[[str, float], object] | None:
        """Start the file of metrics, if one is named; returns a function to call when a step ends."""
        if self.outlets.metrics is None:
            return None

        from answermill.pipelines.runs.watch.metrics import MetricsFile
        from answermill.pipelines.runs.watch.progress import sinks

        metrics = MetricsFile(self.outlets.metrics, self.out)
        metrics.write()

        def end(code: int) -> None:
            sinks.remove(metrics.update)
            metrics.end(code)

        sinks.append(metrics.update)
        self.command.at_end.append(end)
        return metrics.end_step
