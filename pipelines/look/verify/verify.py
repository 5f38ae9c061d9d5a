"""Verification of a run: first its files' bytes, then its manifests against each other, then its rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from answermill.pipelines.errors import INPUT_MISSING, JobError, counted
from answermill.pipelines.look.verify import sums
from answermill.pipelines.look.verify.files import GIVE_A_RUN, RunFiles
from answermill.pipelines.look.verify.finding import Finding
from answermill.pipelines.look.verify.rows import RunRows
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.runs.watch.progress import progress


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

        unreadable = {finding.path.rpartition("/")[0] for finding in files.unreadable}
        yield from sums.check(files.manifests, unreadable)

        sound = {name: manifest for name, manifest in files.manifests.items() if name not in files.damaged}
        rows = sum(manifest.rows for manifest in sound.values())
        with (
            tempfile.TemporaryDirectory() as scratch,
            progress("verify rows", rows, lambda: read["rows"], what="rows"),
        ):
            yield from RunRows(self.run, sound, Path(scratch)).check(lambda number: read.update(rows=number))

        self.files, self.bytes, self.rows = len(files.named), read["bytes"], rows
        work = self.run / WORK
        self.unfinished = tuple(sorted(path.name for path in work.iterdir())) if work.is_dir() else ()

    def summary(self) -> str:
        """Line for people about a run without faults."""
        what = f"{counted(self.files, 'file')}, {self.bytes / 1e6:,.1f} MB, {counted(self.rows, 'row')}"
        rest = f"; not complete, and not looked at: {', '.join(self.unfinished)}" if self.unfinished else ""
        return f"verified   {what}: all as they were written{rest}"
