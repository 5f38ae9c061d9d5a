"""`answermill status`: the folders of a run, with their rows and states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from answermill.files.remote import listed
from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.runs.manifests.failures import Failures
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest
from answermill.pipelines.runs.manifests.reports import units_done
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.live import Running
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.run import Run


def status(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """The content of a run folder: (step, folder, rows, state) per folder; the sizes of all files are
    compared.

    Raises JobError: 66 if there is no such folder, or no run in it; after the last row 65 if a file is
    damaged or missing.
    """
    run = Run.open(path)
    if Running.read(run.path) is None:
        run.refuse_none()

    rows: list[tuple[str, str, str, str]] = []
    remedies: dict[str, None] = {}
    for name, spec in SPECS.items():
        uncommitted = _uncommitted(run, name)
        for folder in spec:
            manifest = run.get(folder)
            if folder.name in run.unreadable:
                remedies[str(run.unreadable[folder.name])] = None
                rows.append((name, folder.name, "", f"damaged: {run.path / folder.name / MANIFEST}"))
            elif manifest is None:
                rows.append((name, folder.name, "", uncommitted))
            else:
                state, is_damaged = _state(manifest, run.path / folder.name)
                rows.append((name, folder.name, f"{manifest.rows:,}", state))
                remedies |= {manifest.maker.again(run.path, option=""): None} if is_damaged else {}

        for batch, folder in ((batch, folder) for batch in spec.places(run.path)[1:] for folder in spec):
            if (manifest := folder.manifest(batch)) is not None:
                place = folder.path(batch)
                shown = place.relative_to(run.path).as_posix()
                rows.append((name, shown, f"{manifest.rows:,}", _state(manifest, place)[0]))

    yield from rows
    if remedies:
        raise JobError(f"{run.path} is damaged; {'; '.join(remedies)}", BAD_DATA)


def _uncommitted(run: Run, step: str) -> str:
    """State of a step's folders without a manifest."""
    work = work_folders(run.path, step)
    if not work:
        return "not there"
    return f"begun, {len(units_done(work[0]))} units done{_failed(len(Failures(work[0]).read()))}"


def _state(manifest: Manifest, folder: Path) -> tuple[str, bool]:
    """State of a committed folder, and True if it is damaged."""
    with listed(folder):
        damage = list(manifest.damage(folder))
    if damage:
        more = f" (and {len(damage) - 1:,} more)" if len(damage) > 1 else ""
        return f"damaged: {damage[0]}{more}", True
    failed = _failed(manifest.counts.get("failed_units", 0))
    return f"complete, {counted(len(manifest.parts), 'part')}{failed}", False


def _failed(units: int) -> str:
    return f", {counted(units, 'unit')} failed" if units else ""
