"""`answermill status`: who works on a run, and its folders, with their rows and states."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answermill.files.remote import as_path, listed
from answermill.pipelines.engine.machines.machine import machines_at
from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.runs.manifests.failures import Failures
from answermill.pipelines.runs.manifests.manifest import MANIFEST, read_manifest
from answermill.pipelines.runs.manifests.reports import units_done
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.spec import Maker
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.live import Running, line_of
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.run import Run


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at a moment."""

    line: str
    """'running: rerank, 1,172 of 2,969 passages, …; pid 17 of anna on node3, …', for people."""
    running: Running | None
    """The command that works, or worked, on it."""
    folders: tuple[tuple[str, str, str, str], ...]
    """(step, folder, rows, state)."""
    machines: tuple[str, ...]
    """A line for people on each machine that shares the run."""
    damage: JobError | None

    @property
    def state(self) -> str:
        """'running', 'stopped', 'stale' or 'complete'."""
        return self.line.partition(":")[0]

    def table(self) -> Iterator[str]:
        """Lines for people: the machines, and the folders."""
        yield from self.machines
        rows = [("step", "folder", "rows", "state"), *self.folders]
        widths = [max(len(row[n]) for row in rows) for n in range(3)]
        for step, folder, n, state in rows:
            yield f"{step:<{widths[0]}}  {folder:<{widths[1]}}  {n:>{widths[2]}}  {state}"

    def as_json(self) -> dict[str, Any]:
        """The same as one object; the rows of a folder that is not committed are None."""
        folders = [
            {"step": step, "folder": folder, "rows": int(n.replace(",", "")) if n else None, "state": state}
            for step, folder, n, state in self.folders
        ]
        command = None
        if self.running is not None:
            progress = self.running.progress
            rounded = None if progress is None else progress.rounded()
            command = asdict(self.running) | {"progress": rounded}
        damage = None if self.damage is None else str(self.damage)
        return {
            "state": self.state,
            "line": self.line,
            "command": command,
            "machines": list(self.machines),
            "damage": damage,
            "folders": folders,
        }


def status_of(path: Path, is_open: bool = False) -> RunStatus:
    """The status of a run now. `is_open`: True for the run of a night that has not come to its end. Raises
    JobError (66) as `status`."""
    check_run(as_path(path))
    rows, damage = [], None
    running = Running.read(path)
    try:
        for row in status(path, is_open):
            rows.append(row)
    except JobError as e:
        if not rows:
            raise
        damage = e
    is_complete = not is_open and all(row[3].startswith(("complete", "not there")) for row in rows)
    machines = tuple(machines_at(path))
    return RunStatus(line_of(path, is_complete), running, tuple(rows), machines, damage)


def status(path: Path, is_open: bool = False) -> Iterator[tuple[str, str, str, str]]:
    """The content of a run folder: (step, folder, rows, state) per folder; the sizes of all files are
    compared. `is_open` as of `status_of`: such a run may have no step yet.

    Raises JobError: 66 if there is no such folder, or no run in it; after the last row 65 if a file is
    damaged or missing.
    """
    run = Run.open(path)
    if not is_open and Running.read(run.path) is None:
        run.refuse_none()

    rows: list[tuple[str, str, str, str]] = []
    remedies: dict[str, None] = {}
    for name, spec in SPECS.items():
        uncommitted = _uncommitted(run, name)
        batches = (run.path, *spec.places(run.path)[1:])
        for batch, folder in itertools.product(batches, spec):
            place = folder.path(batch)
            n, state, remedy = _row(place, folder.maker, batch)
            rows.append((name, place.relative_to(run.path).as_posix(), n, state or uncommitted))
            remedies |= {remedy: None} if remedy else {}

    yield from rows
    if remedies:
        raise JobError(f"{run.path} is damaged; {'; '.join(remedies)}", BAD_DATA)


def _uncommitted(run: Run, step: str) -> str:
    """State of a step's folders without a manifest."""
    work = work_folders(run.path, step)
    if not work:
        return "not there"
    return f"begun, {len(units_done(work[0]))} units done{_failed(len(Failures(work[0]).read()))}"


def _row(place: Path, maker: Maker, run: Path) -> tuple[str, str, str]:
    """(rows, state, what to do) of a folder: no state if it is not committed, and something to do only if it
    is damaged. `run`: the run, or the folder of a further batch."""
    try:
        manifest = read_manifest(place, maker, run)
    except JobError as e:
        return "", f"damaged: {place / MANIFEST}", str(e)
    if manifest is None:
        return "", "", ""

    n = f"{manifest.rows:,}"
    with listed(place):
        damage = list(manifest.damage(place))
    if damage:
        more = f" (and {len(damage) - 1:,} more)" if len(damage) > 1 else ""
        return n, f"damaged: {damage[0]}{more}", manifest.maker.again(run, option="")

    failed = _failed(manifest.counts.get("failed_units", 0))
    return n, f"complete, {counted(len(manifest.parts), 'part')}{failed}", ""


def _failed(units: int) -> str:
    return f", {counted(units, 'unit')} failed" if units else ""
