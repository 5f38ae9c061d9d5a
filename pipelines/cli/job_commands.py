"""Commands that run a job or one of its steps, and that show what a job file and a run folder hold."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from answermill.pipelines.cli.job_work import (
    ALONE,
    BARS,
    DEFAULTS,
    NIGHT_DEFAULTS,
    GateBars,
    JobWork,
    NightOptions,
    NightWork,
    Outlets,
    Sharing,
)
from answermill.pipelines.cli.parameters import (
    PLACE,
    JobFile,
    Out,
    Overrides,
    Running,
    write_lines,
)
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.specs.registry import folders, job_steps

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
