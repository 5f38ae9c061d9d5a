"""A run folder as a value: its manifests, read once; and from them typed folders and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.files.remote import as_path, listed
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.runs.spec import AnyCounts, FolderSpec, R, StepSpec
from answermill.pipelines.runs.step import state_of, work_folders
from answermill.pipelines.specs.registry import SPECS, AnyStep, folders, spec_of


@dataclass(frozen=True)
class Run:
    """A run: `run[SCORED]` is a folder, `run.counts(RERANK)` the counts of a step."""

    path: Path
    manifests: Mapping[str, Manifest]
    """Path of a committed folder, below the run → its manifest."""
    unreadable: Mapping[str, JobError]
    """Path of a folder whose manifest cannot be read → the error, with what to type."""

    @classmethod
    def open(cls, path: Path) -> Run:
        """The run in a folder. Raises JobError (66) if there is no such folder."""
        path = as_path(path)
        check_run(path)
        manifests, unreadable = {}, {}
        with listed(path):
            for _, folder in folders():
                try:
                    if (manifest := folder.manifest(path)) is not None:
                        manifests[folder.name] = manifest
                except JobError as e:
                    unreadable[folder.name] = e
        return cls(path, manifests, unreadable)

    def refuse_none(self, reason: str = "") -> None:
        """Raise JobError (66) if no step has begun in the folder. `reason`: end of the message, in place of
        the command that makes a run."""
        begun = self.manifests or self.unreadable or any(work_folders(self.path, step) for step in SPECS)
        if not begun:
            way_out = reason or f"; `answermill run JOB.toml --out {self.path}` makes one"
            raise JobError(f"no run in {self.path}{way_out}", INPUT_MISSING)

    def refuse_unreadable(self) -> None:
        """Raise JobError (65) if a manifest cannot be read."""
        for error in self.unreadable.values():
            raise error

    def __getitem__(self, spec: FolderSpec[R]) -> Folder[R]:
        """A committed folder. Raises JobError as `FolderSpec.open`."""
        if spec.name in self.unreadable:
            raise self.unreadable[spec.name]
        return Folder.of(self.path / spec.name, spec, self.manifests.get(spec.name))

    def get(self, spec: FolderSpec[Any]) -> Manifest | None:
        """The manifest of a folder; None if it is not committed."""
        return self.manifests.get(spec.name)

    def of(self, spec: StepSpec[Any]) -> dict[str, Manifest]:
        """Folder → manifest, of the step's folders that are committed."""
        return {folder.name: self.manifests[folder.name] for folder in spec if folder.name in self.manifests}

    def is_complete(self, spec: StepSpec[Any]) -> bool:
        """True if all folders of a step are committed, by it or by a command in its place."""
        written = self.of(spec)
        return bool(written) and not any(absent for _, absent in self.lacking(spec))

    def lacking(self, spec: StepSpec[Any]) -> Iterator[tuple[AnyStep, list[str]]]:
        """(writer, folders that it has not committed) of each step or command that wrote a folder of the
        step."""
        for name in dict.fromkeys(manifest.step for manifest in self.of(spec).values()):
            writer = spec_of(name) or spec
            yield writer, writer.absent({n: m for n, m in self.manifests.items() if m.step == name})

    def counts(self, spec: StepSpec[AnyCounts]) -> AnyCounts:
        """The counts of a step; zeros if it is not complete, or another command wrote its folders."""
        own = [manifest for manifest in self.of(spec).values() if manifest.step == spec.name]
        return spec.counts_of(own[0] if own and self.is_complete(spec) else None)

    def state(self, spec: StepSpec[Any]) -> str:
        """State of a step that is not complete, for people: 'has not run', 'is running or was stopped, with
        3 units done'."""
        return state_of(self.path, spec.name)
