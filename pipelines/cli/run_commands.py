"""Commands about existing runs: the state of one and the trend of many, reports, verification and repair, and
the removal of leftovers."""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from answermill.pipelines.cli.job_work import JobWork
from answermill.pipelines.cli.parameters.arguments import NEW_FOLDER, PLACE, Price, Run, Seed, check_there
from answermill.pipelines.cli.parameters.option_groups import RECOGNISED, DatasetForm
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import USAGE, JobError, counted

GROUP = Group("Runs", sort_key=1)
WATCH_S = 5.0
"""Seconds between two looks of `status --watch`."""
_CLEARED = "\x1b[H\x1b[2J"
"""Moves a terminal's cursor to the top and clears what is below it."""


def status(
    run: Run,
    *,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object, with --watch one a line.")
    ] = False,
    watch: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Look again every 5 seconds, until no command works on the run. Where stdout is no "
            "terminal only the first line is written anew, and the table at the end.",
        ),
    ] = False,
) -> None:
    """Show who works on a run, and each step's rows and state. Exits with 65 if a file is damaged.

    A run is running, with its step, the rate, the time that is left, and the process, user and machine;
    stopped; stale, if its process is gone without a word; or complete. Machines that share a run with --join
    have a line each. Any terminal can ask, on another machine too if it sees the folder.
    """
    from answermill.pipelines.look.status import status_of
    from answermill.pipelines.nights.night_folder import is_open_night

    now = status_of(run, is_open_night(run))
    while watch and now.state == "running":
        if json:
            write_lines([json_format.dumps(now.as_json())])
        elif sys.stdout.isatty():
            sys.stdout.write(_CLEARED)
            write_lines([now.line, *now.table()])
        else:
            write_lines([now.line])
        time.sleep(WATCH_S)
        now = status_of(run, is_open_night(run))

    if watch and not json and sys.stdout.isatty():
        sys.stdout.write(_CLEARED)
    write_lines([json_format.dumps(now.as_json())] if json else [now.line, *now.table()])
    if now.damage is not None:
        raise now.damage


def runs(
    folder: Annotated[
        Path, PLACE, Parameter(help="Folder that holds runs, as --runs of `night`, or its URL.")
    ],
    *,
    last: Annotated[int, Parameter(help="Runs that are shown, the newest.")] = 30,
    json: Annotated[
        bool, Parameter(negative=(), help="Print a JSON list in place of the table, an object each run.")
    ] = False,
) -> None:
    """List the runs in a folder, each with its figures and what changed from the one before.

    The figures are pages read, records refused, questions, answers, and seconds by the clock. A run is good,
    the one that RUNS/good leads to; complete; refused by the gate of its night; failed, with the exit code;
    damaged; running; or stopped. The oldest comes first; the last line has each figure as small bars.
    """
    from answermill.pipelines.nights.trends import as_json, runs_in, table

    figures = runs_in(folder, last)
    write_lines([json_format.dumps(as_json(figures))] if json else table(figures))


def verify(
    run: Run,
    *,
    repair: Annotated[
        bool,
        Parameter(
            negative=(), help="Say which files would be removed, which steps run again, and what to type."
        ),
    ] = False,
    yes: Annotated[bool, Parameter(negative=(), help="With --repair: remove those files now.")] = False,
    job: Annotated[
        Path | None,
        PLACE,
        Parameter(help="With --repair --yes: the run's job file; those steps then run at once."),
    ] = None,
) -> None:
    """Compare a finished run with what was written, every byte and row. Exits with 65 if anything differs.

    Every file is read and compared with the SHA-256 that a manifest has of it; a manifest has its own. Files
    that are missing, and files that no manifest names, are found too. Then the manifests are compared with
    each other: was each folder made of the one that is there now, and is what came in what went out and what
    was refused? Then the rows: columns, ids that are there once and lead somewhere, texts that stand in their
    documents, ranks from 1 to n.

    A line for each thing that is wrong goes to stdout. Nothing is written without --yes, and what people
    judge, packs/ and collected/, is never removed. After --job, and where no step has to run, the run is
    verified again. Memory does not grow with the run. A run in an object store is read there, and not from
    the copies on this machine.
    """
    if (yes and not repair) or (job is not None and not yes):
        raise JobError("--yes belongs to --repair, and --job to --repair --yes", USAGE)
    from answermill.pipelines.look.verify.repair import mend

    redo = JobWork(job, run).redo if job is not None else None
    write_lines(mend(run, "remove" if yes else "plan" if repair else "look", redo))


def clean(
    run: Run,
    *,
    yes: Annotated[bool, Parameter(negative=(), help="Remove them.")] = False,
) -> None:
    """List what killed commands have left in a run and nothing needs; with --yes remove it.

    Half-written files; parts and shards that no manifest names, and no unit of a stopped step; work folders
    of complete steps; folders that others have replaced. What a stopped step goes on with stays, and so do
    votes, and files that are none of ours. A run that a command works on is refused (73), and so is a folder
    in which no step of a run has begun (66). An object store has no locks: give --yes when no command works
    there.
    """
    from answermill.pipelines.look.verify.leftovers import clean as cleaned
    from answermill.pipelines.look.verify.leftovers import leftovers

    number = size = 0
    for leftover in cleaned(run) if yes else leftovers(run):
        write_lines(
            [f"{'removed' if yes else 'leftover':<10} {leftover.path.relative_to(run)}  ({leftover.why})"]
        )
        number, size = number + 1, size + leftover.bytes
    what = f"{counted(number, 'leftover')}, {size / 1e6:,.1f} MB"
    advice = f"; `answermill clean {run} --yes` removes them" if number and not yes else ""
    write_lines([f"{'cleaned' if yes else 'clean':<10} {what}{advice}"])


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Files of a report."""

    out: Annotated[
        Path | None,
        PLACE,
        NEW_FOLDER,
        Parameter(help="Folder to write into; by default that of the run, or of the second run."),
    ] = None
    excel: Annotated[
        bool | None,
        Parameter(
            help="Write answers.xlsx too, which needs `pip install 'answermill[excel]'`; if absent it is "
            "renewed where it is there."
        ),
    ] = None


def report(
    run: Run,
    other: Annotated[
        Path | None,
        PLACE,
        Parameter(
            help="Another run of the same questions: what changed from the first to this one is reported "
            "instead."
        ),
    ] = None,
    *,
    labels: Annotated[
        Path | None,
        PLACE,
        Parameter(help="Labels, as for `evaluate`; the run's own labels/sentences if not given and there."),
    ] = None,
    price_per_hour: Annotated[Price, Parameter(help="What an hour of one worker costs, in dollars.")] = None,
    seed: Annotated[Seed, Parameter(help="Seed of the hash that chooses the questions that are shown.")] = 0,
    show: Annotated[
        int, Parameter(help="Changed answers of two runs that are shown of each kind: lost, gained, other.")
    ] = 50,
    files: ReportFiles = ReportFiles(),
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Write a run's report, RUN/report.html and .json, and all answers; or what changed between two runs.

    `answermill run` does so at its end. The page is one file that loads nothing and runs nothing. Beside it
    are all answers: answers.html, a table that a script of the page filters and that is a table without it,
    and answers.csv; of a run that has asked people, annotation.html has their progress, agreement and
    conflicts. Of two runs, compared.html and compared.json hold counts, settings, P@1 and MRR, and the
    questions whose first answer changed, with both answers.
    """
    check_there(*(path for path in (run, other, labels) if path is not None))
    form = reading.parse()
    if other is None:
        from answermill.pipelines.look.report.run_report import write_report

        write_lines(
            [write_report(run, labels, price_per_hour, seed, files.out, form=form, excel=files.excel)]
        )
        return
    if files.excel is not None:
        raise JobError("--excel is of one run's answers; leave it out, or name one run", USAGE)
    from answermill.pipelines.look.report.two_runs import write_comparison

    line = write_comparison(
        run, other, labels=labels, price_per_hour=price_per_hour, show=show, out=files.out, form=form
    )
    write_lines([line])


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [status, runs, report, verify, clean]
