"""Leftovers of killed commands in a run: half-written files, parts that no manifest and no unit's report
names, work folders of complete steps, earlier folders that were replaced.

Files that a manifest names are kept, and those that a stopped step goes on with, files that are none of ours,
votes, and all that is replaced whole. In an object store a file is whole when it has a name, so none is
half-written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from answermill.files.store import is_temporary, remove_tree, store_of
from answermill.pipelines.engine.machines.members import MACHINES
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.look.verify.files import GIVE_A_RUN, PLACES
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.reports import Reports
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.parquet_folder import is_written_by_a_unit
from answermill.pipelines.runs.step import WORK, work_folders
from answermill.pipelines.runs.watch.live import RUNNING, Running
from answermill.pipelines.specs.registry import SPECS, folders
from answermill.pipelines.specs.run import Run

_FORMER = re.compile(r"\.(.+)\.[0-9a-f]{32}\.former")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder of a run that nothing needs, the reason, and its bytes."""

    path: Path
    why: str
    bytes: int

    @classmethod
    def of(cls, path: Path, why: str) -> Self:
        inside = path.rglob("*") if path.is_dir() else (path,)
        return cls(path, why, sum(file.stat().st_size for file in inside if file.is_file()))

    def remove(self) -> None:
        remove_tree(self.path) if self.path.is_dir() else self.path.unlink(missing_ok=True)


def leftovers(run: Path) -> list[Leftover]:
    """Files and folders that may be removed, in the order of the paths.

    Raises JobError: 66 if there is no such folder, or no run in it, 73 if a command works on it, 65 if a
    manifest is damaged, so that the files it named are unknown.
    """
    refuse_none(run)
    running = Running.read(run)
    if running is not None and not running.is_gone(time.time()):
        raise JobError(
            f"{run}: a command works here ({running.who()}); nothing is removed until it ends", OUTPUT_EXISTS
        )

    result = [*_of_command(run, running), *_temporary(run)]
    for step, spec in SPECS.items():
        if spec.replaced_whole:
            continue
        by_name = {folder.name: folder.manifest(run) for folder in spec}
        manifests = {name: manifest for name, manifest in by_name.items() if manifest is not None}
        work, is_complete = work_folders(run, step), not spec.absent(manifests)
        if is_complete:
            result += [Leftover.of(folder, f"{step} is complete") for folder in work]

        reports = [Reports(folder, spec.counts, run) for folder in work] if not is_complete else []
        for name, manifest in by_name.items():
            result += _unnamed(run / name, name, manifest, reports)

    return sorted(result, key=lambda leftover: leftover.path)


def clean(run: Path) -> Iterator[Leftover]:
    """Remove the leftovers, and yield each when it is removed. Raises as `leftovers`, and JobError (73) if
    another process has the run."""
    refuse_none(run)
    with claimed(run):
        for leftover in leftovers(run):
            leftover.remove()
            yield leftover


def refuse_none(run: Path) -> None:
    """Raise JobError (66) unless a step has begun in the folder: other programs' parts have the same
    names."""
    check_run(run, GIVE_A_RUN)
    if Running.read(run) is None:
        reason = ": no step of one has begun there, so nothing in it is known to be left over"
        Run.open(run).refuse_none(reason)


def _of_command(run: Path, running: Running | None) -> Iterator[Leftover]:
    if running is not None:
        yield Leftover.of(run / RUNNING, f"its process, {running.pid} on {running.host}, is gone")
    if (run / MACHINES).is_dir():
        yield Leftover.of(run / MACHINES, "no machine shares the run any more")
    for step, spec in SPECS.items():
        if spec.replaced_whole and (work := run / WORK / step).is_dir():
            yield Leftover.of(work, f"a {step} that was stopped begins anew")


def _temporary(run: Path) -> Iterator[Leftover]:
    """Half-written files and folders, and former ones that were replaced, in the run, in its folders and in
    work folders."""
    if not store_of(run).has_half_written:
        return

    places = [
        run,
        *(run / folder.name for _, folder in folders()),
        *(run / place for place in sorted(PLACES)),
    ]
    places += [path for path in (run / WORK).glob("*") if path.is_dir()] if (run / WORK).is_dir() else []
    for place in dict.fromkeys(places):
        for path in place.iterdir() if place.is_dir() else ():
            if is_temporary(path.name):
                yield Leftover.of(path, "half-written")
            elif (former := _FORMER.fullmatch(path.name)) and path.with_name(former[1]).exists():
                yield Leftover.of(path, f"{former[1]} has taken its place")


def _unnamed(
    folder: Path, name: str, manifest: Manifest | None, reports: list[Reports[Any]]
) -> Iterator[Leftover]:
    """Parts and shards that no manifest names, nor, if there is none, a unit that may still be committed."""
    if not folder.is_dir():
        return

    named = {part.file for part in (*manifest.parts, *manifest.tables.values())} if manifest else set[str]()
    unit_reports = (report for step_reports in reports for report in step_reports.each())
    named |= {part.file for report in unit_reports for part in report.parts.get(name, ())}
    for path in sorted(folder.iterdir()):
        if is_written_by_a_unit(path.name) and path.name not in named:
            yield Leftover.of(path, "no manifest names it" if manifest else "no unit has reported it")
