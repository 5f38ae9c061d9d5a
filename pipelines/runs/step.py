"""A step of a run: the inputs of its output, its fingerprint, and the folder where its units work. Its commit
is in `commit.py`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

from answermill.pipelines.errors import counted
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.failures import Failures
from answermill.pipelines.runs.manifests.reports import Reports, units_done
from answermill.pipelines.runs.spec import AnyCounts, FolderSpec, StepSpec
from answermill.pipelines.runs.watch.live import WORK as WORK
from answermill.schemas.record import Record

MARK = "fingerprint"
"""The file in a step's work folder that holds its fingerprint; a worker that does not see it sees another run
folder, or none."""


@dataclass(frozen=True)
class Step(Generic[AnyCounts]):
    """One step of the run in `run`; `spec` lists what it writes."""

    run: Path
    spec: StepSpec[AnyCounts]
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]

    def __getstate__(self) -> dict[str, Any]:
        """The state that is sent to workers: all but settings and inputs, which grow with the input; the
        fingerprint stands for them."""
        return {**self.__dict__, "_fingerprint": self._fingerprint, "settings": {}, "inputs": {}}

    @property
    def name(self) -> str:
        return self.spec.name

    def within(
        self,
        name: str,
        folders: Mapping[str, type[Record]],
        counts: type[StepCounts],
        inputs: Mapping[str, str],
    ) -> Step[Any]:
        """A step within this one, such as a pass, in its work folder; `folders` are there too."""
        specs = tuple(FolderSpec.of(folder, record, self.spec.maker) for folder, record in folders.items())
        return Step(self.work, self.spec.within(name, specs, counts), {}, inputs)

    @property
    def work(self) -> Path:
        """The folder where its units report and keep what only the step itself reads; removed when the step
        is complete. Jobs with other settings or inputs have other folders, so workers that one of them left
        behind do not touch this one's."""
        return self.run / WORK / f"{self.name}-{self.fingerprint()[:8]}"

    @property
    def reports(self) -> Reports[AnyCounts]:
        return Reports(self.work, self.spec.counts, self.run)

    def fingerprint(self) -> str:
        """32 hex digits that stand for all that decides the step's output."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        decisive = {
            "step": self.name,
            "revision": self.spec.revision,
            "settings": self.settings,
            "inputs": self.inputs,
            "schemas": {folder.name: folder.record.fingerprint() for folder in self.spec},
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]


def work_folders(run: Path, step: str) -> list[Path]:
    """The work folders of a step, whatever the settings; the last used one first."""
    folders = (run / WORK).glob(f"{step}-{'[0-9a-f]' * 8}")
    return sorted(folders, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)


def state_of(run: Path, step: str) -> str:
    """State of a step that is not complete, for people: 'has not run', 'is running or was stopped, with 3
    units done'."""
    folders = work_folders(run, step)
    if not folders:
        return "has not run"
    failed = len(Failures(folders[0]).read())
    done = f"is running or was stopped, with {counted(len(units_done(folders[0])), 'unit')} done"
    return f"{done}, {failed} failed" if failed else done
