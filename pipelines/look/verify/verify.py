"""Verification of a run: first its files' bytes, then its manifests against each other, then its rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from answermill.pipelines.errors import INPUT_MISSING, JobError, counted
from answermill.pipelines.look.verify import sums
from answermill.pipelines.look.verify.files import GIVE_A_RUN, RunFiles
from answermill.pipelines.look.verify.finding import Finding
from answermill.pipelines.look.verify.rows import RunRows
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.registry import SPECS


@dataclass
class Verification:
    """Verification of a run. `findings` yields the faults; after that the numbers say how much was
    checked."""

    run: Path
    files: int = 0
    bytes: int = 0
    rows: int = 0
    unfinished: tuple[str, ...] = field(default=())
    """Work folders of incomplete steps, which are not checked."""

    def findings(self) -> Iterator[Finding]:
        """All faults of the run. Raises JobError (66) if there is no such folder, or no run in it; OSError if
        a file cannot be read."""
        check_run(self.run, GIVE_A_RUN)
        files = RunFiles.of(self.run)
        if not files.manifests and not files.unreadable:
            advice = (
                f"`answermill status {self.run}` shows how far it is"
                if (self.run / WORK).is_dir()
                else "there is no manifest"
            )
            raise JobError(f"no complete step of a run in {self.run}; {advice}", INPUT_MISSING)

        read: Counter[str] = Counter()
        with progress("verify files", files.bytes, lambda: read["bytes"], what="bytes"):
            yield from files.check(lambda size: read.update(bytes=size))

        # What people have begun stays, though what it was made of may be made anew for a later batch.
        places = {name: spec.places(self.run)[1:] for name, spec in SPECS.items()}
        batches = [RunFiles.of(place) for further in places.values() for place in further]
        kept = {name for name, further in places.items() if further}
        unreadable = {finding.path.rpartition("/")[0] for finding in files.unreadable}
        yield from sums.check(files.manifests, unreadable, kept)
        for batch in batches:
            place = batch.run.relative_to(self.run).as_posix()
            wrong = [*batch.check(lambda size: read.update(bytes=size))]
            yield from (replace(finding, path=f"{place}/{finding.path}") for finding in wrong)

        sound = {name: manifest for name, manifest in files.manifests.items() if name not in files.damaged}
        rows = sum(manifest.rows for manifest in sound.values())
        with (
            tempfile.TemporaryDirectory() as scratch,
            progress("verify rows", rows, lambda: read["rows"], what="rows"),
        ):
            rows_of_batches: dict[str, list[RunRows]] = {}
            for batch in batches:
                for name in batch.manifests.keys() - batch.damaged:
                    others = rows_of_batches.setdefault(name, [])
                    others.append(RunRows(batch.run, batch.manifests, Path(scratch)))
            rows_of_run = RunRows(self.run, sound, Path(scratch), rows_of_batches)
            yield from rows_of_run.check(lambda number: read.update(rows=number))

        named = len(files.named) + sum(len(batch.named) for batch in batches)
        self.files, self.bytes, self.rows = named, read["bytes"], rows
        work = self.run / WORK
        self.unfinished = tuple(sorted(path.name for path in work.iterdir())) if work.is_dir() else ()

    def summary(self) -> str:
        """Line for people about a run without faults."""
        what = f"{counted(self.files, 'file')}, {self.bytes / 1e6:,.1f} MB, {counted(self.rows, 'row')}"
        rest = f"; not complete, and not looked at: {', '.join(self.unfinished)}" if self.unfinished else ""
        return f"verified   {what}: all as they were written{rest}"
