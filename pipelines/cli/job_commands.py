"""Commands that run a job or one of its steps, and that show what a job file and a run folder hold."""

from __future__ import annotations

import difflib
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from answermill.files.remote import as_path
from answermill.files.store import store_of
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.job_work import (
    ALONE,
    BARS,
    DEFAULTS,
    NIGHT_DEFAULTS,
    GateBars,
    JobWork,
    NightOptions,
    Outlets,
    Sharing,
)
from answermill.pipelines.cli.parameters.arguments import PLACE, JobFile, Out, Overrides, Running
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.runs.watch import log_lines
from answermill.pipelines.specs.registry import folders, job_steps

if TYPE_CHECKING:
    from answermill.pipelines.nights.gate import Bars
    from answermill.pipelines.nights.night_folder import Nights
    from answermill.pipelines.runs.watch.metrics import MetricsFile

GROUP = Group("Jobs", sort_key=1)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Checks and removals of a run before its first step."""

    redo: Annotated[
        str | None,
        Parameter(
            help="A step that is to be done again, e.g. rerank: its output, and what later steps have made "
            "of it, is listed, "
            "removed and made again. packs/ and collected/ stay."
        ),
    ] = None
    verify: Annotated[
        str | None,
        Parameter(
            help="A step of whose output every byte is compared with its SHA-256 first, e.g. index: changed "
            "files are removed "
            "and made again, in index, retrieve and rerank without the others."
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Check the job, and say what every step would do, refuse or remove, with --redo too: "
            "files, records, requests and bytes to read, questions to ask, steps that are complete. Reads "
            "lists, indexes, questions and the sizes of files; runs and writes nothing.",
        ),
    ] = False


def run(
    job: JobFile,
    *,
    out: Out,
    beginning: Beginning = Beginning(),
    sharing: Sharing = ALONE,
    settings: Overrides = (),
    outlets: Outlets = DEFAULTS,
    command: Running,
) -> None:
    """Run the whole job: every step that it has a section for, in order; then write its report."""
    sharing.check(beginning.redo or beginning.verify, command.beam_options)
    work = JobWork.of(job, out, settings, outlets, command)
    if beginning.dry_run:
        work.foresee(beginning.redo, beginning.verify)
        return

    if work.run(redo=beginning.redo, verify=beginning.verify, sharing=sharing):
        work.report()


def night(
    job: JobFile,
    *,
    runs: Annotated[
        Path,
        PLACE,
        Parameter(help="Folder of all nights, or its URL (s3://, gs://, abfs://); it is created if needed."),
    ],
    options: NightOptions = NIGHT_DEFAULTS,
    bars: GateBars = BARS,
    settings: Overrides = (),
    outlets: Outlets = DEFAULTS,
    command: Running,
) -> None:
    """Run a night: the whole job, verified, compared with the last good run, published if it is not worse.

    Stages: run, all steps of the job into RUNS/NIGHT, and their report; verify, every byte and row; gate, the
    comparison, whose compared.html is in the run; publish, RUNS/good leads to the run (a link or, in an
    object store, a file that holds its name); retain, old nights are removed, also where the night was
    refused.

    The exit code is that of the stage that failed, and 3 if the gate refuses the run: then RUNS/good stays,
    and the message has the command that accepts the run. RUNS/NIGHT/night.json and the file of --metrics say
    how the night ended. The same command goes on where it was; of two at once in a folder the second is
    refused (73).
    """
    NightWork(job, runs, options, bars, settings, outlets, command).run()


@dataclass(frozen=True, slots=True)
class NightWork:
    """Work of `answermill night`: a run of the job in the folder `runs`, and what follows from it."""

    job_file: Path
    runs: Path
    options: NightOptions
    bars: GateBars
    settings: Sequence[str]
    outlets: Outlets
    command: Command

    def run(self) -> None:
        """Do the night, or say what it would do. Raises JobError: 2 if an option is wrong; as `Night.lines`
        and `claimed`."""
        log_lines.choose(self.outlets.log_format)
        self.outlets.arm(self.command, self.job_file)
        from answermill.pipelines.nights.gate import Bars
        from answermill.pipelines.nights.night import foreseen
        from answermill.pipelines.nights.night_folder import Nights
        from answermill.pipelines.runs.lock import claimed

        limits, options = self.bars, self.options
        bars = Bars(limits.metric, limits.margin, limits.max_changed, limits.max_fall, limits.max_rejects)
        bars.check()
        if options.keep < 1:
            raise JobError(f"--keep {options.keep}: give how many nights stay, 1 or more", USAGE)

        nights = Nights(as_path(self.runs).absolute())
        name = options.night or time.strftime("%Y-%m-%d", time.gmtime())
        self.command.folder = nights.run(name)
        store_of(nights.folder).check()

        if options.dry_run:
            record = nights.read(name)
            former = nights.good() if record is None else record.former
            began = time.time() if record is None else record.began
            former_path = nights.run(former) if former else None
            self._job_work(nights.run(name), former_path, began).foresee()
            write_lines(foreseen(nights, name, options.keep, bars))
            return

        # Before the file of metrics, which belongs to the night that has the folder.
        with claimed(nights.folder):
            self._do(nights, name, bars)

    def _do(self, nights: Nights, name: str, bars: Bars) -> None:
        from answermill.pipelines.nights.night import STAGES, Night

        metrics = self._job_work(nights.run(name), None).metrics()
        record = nights.begin(name, as_path(self.job_file).absolute())
        night = Night(
            nights,
            record,
            lambda run, former: self._run_job(run, former, metrics, record.began),
            self._command_line(name),
            bars,
            self.options.keep,
            self.options.accept,
        )

        def enter(stage: str) -> None:
            self.command.stage = stage
            if metrics is not None:
                metrics.enter(stage, STAGES)

        night.on_stage = enter
        if metrics is not None:
            night.on_figures = metrics.add_figures
        self.command.at_end.append(night.end)
        write_lines(night.lines())

    def _command_line(self, name: str) -> str:
        """What is typed for this night, without what decides no row."""
        words = ["answermill", "night", str(self.job_file), "--runs", str(self.runs), "--night", name]
        for option, values in (("--since", self.options.since), ("--set", self.settings)):
            words += [option, *values] if values else []
        return shlex.join(words)

    def _run_job(self, run: Path, former: Path | None, metrics: MetricsFile | None, began: float) -> None:
        work = self._job_work(run, former, began)
        work.run(metrics=metrics)
        work.report()

    def _job_work(self, run: Path, former: Path | None, began: float = 0.0) -> JobWork:
        """The job's work, with `former` as the key `since` of the steps that are to have it, and the night's
        date."""
        earlier = None if former in (None, run) else str(former)
        since = [f"{step}.since={earlier}" for step in self.options.since if earlier is not None]
        settings = (*self.settings, *since)
        from answermill.pipelines.nights.night_folder import night_date

        today = night_date(run.name, began)
        return JobWork(self.job_file, run, settings, self.outlets, self.command, lambda: earlier, today=today)


def step_command(name: str, about: str) -> Callable[..., None]:
    """Command that runs one step of a job; `about` is its help text."""

    def one_step(
        job: JobFile,
        *,
        out: Out,
        redo: Annotated[
            bool,
            Parameter(
                negative=(), help="Remove the step's own output first; what later steps made of it stays."
            ),
        ] = False,
        verify: Annotated[
            bool,
            Parameter(
                negative=(), help="Compare every byte of the step's output first; make changed files again."
            ),
        ] = False,
        settings: Overrides = (),
        outlets: Outlets = DEFAULTS,
        command: Running,
    ) -> None:
        work = JobWork.of(job, out, settings, outlets, command)
        work.run(name, redo=name if redo else None, verify=name if verify else None)
        work.report(only_again=True)

    one_step.__name__, one_step.__doc__ = name, about
    return one_step


def keys(
    name: Annotated[
        str | None, Parameter(help="A section or a key, such as rerank or ingest.input; all if absent.")
    ] = None,
    *,
    kind: Annotated[
        Literal["job", "train"], Parameter(name="--of", help="The kind of file: job or train.")
    ] = "job",
) -> None:
    """List the keys of a job file, or of a training file, with their types, defaults and meanings."""
    if kind == "train":
        from answermill.pipelines.config.training_file import keys as training_keys

        listing = training_keys()
    else:
        from answermill.pipelines.config.job_file import keys as job_keys

        listing = job_keys()

    rows = {row[0]: row for row in listing}
    for key, value, default, meaning in (rows[key] for key in _named(name, list(rows), "keys")):
        write_lines(
            [
                key,
                f"    {value}, {default if default == 'required' else 'default ' + default}",
                f"    {meaning}",
            ]
        )


def _named(name: str | None, names: Sequence[str], what: str) -> list[str]:
    """The names that are `name`, or parts of it: 'labels' is 'labels/sentences' as well, and 'rerank'
    'rerank.stages[].keep'. All without a name. Raises JobError (2) if there is none."""
    if name is None:
        return list(names)
    name = name.strip("/[]")
    if parts := [each for each in names if re.match(rf"{re.escape(name)}(?:[./\[]|$)", each)]:
        return parts

    firsts = list(dict.fromkeys(re.split(r"[./\[]", each)[0] for each in names))
    alike = difflib.get_close_matches(name, [*firsts, *names], 1)
    meant = f"; is {alike[0]} meant" if alike else ""
    raise JobError(f"{what} {name}: no such name{meant}; they begin with {', '.join(firsts)}", USAGE)


def columns(
    name: Annotated[
        str | None, Parameter(help="A folder of a run, such as scored or labels/sentences; all if absent.")
    ] = None,
) -> None:
    """Print the data dictionary: the columns of a run's folders."""
    specs = {folder.name: folder for _, folder in folders()}
    for folder in (specs[each] for each in _named(name, list(specs), "columns")):
        write_lines([f"{folder.name}/  {' '.join((folder.record.__doc__ or '').split())}"])
        write_lines(
            f"    {name:<32} {kind:<26} {meaning}" for name, kind, meaning in folder.record.describe()
        )


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    steps = [step_command(step.name, step.about) for step in job_steps().values()]
    return [run, night, *steps, keys, columns]
