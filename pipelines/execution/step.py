"""A step of a run: its units of work, which of them are done, and the commit of its folders.

A unit writes its parts and then a report, `_work/<step>/unit-<n>.json`; a unit with a report is skipped when the step
runs again, so a run that was killed continues where it stopped. When all units have reported, the manifests are written
and the reports removed. All that decides the content is in a fingerprint: settings, inputs, schemas, and the revision of
the step's code. A folder committed under another fingerprint is never touched.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipelines.errors import OUTPUT_EXISTS, JobError
from pipelines.execution.parquet_folder import Manifest, Part, read_manifest, sweep
from schemas.atomic_files import write_text
from schemas.record import Record

WORK = "_work"


@dataclass(frozen=True, slots=True)
class Report:
    """What one unit wrote: its part in each output folder, and counts to be added up."""

    unit: int
    parts: Mapping[str, Part] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the input files that it has read, by name."""


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a step's units, one file each, so that any number of workers can write at once."""

    folder: Path

    def write(self, report: Report) -> None:
        parts = {name: asdict(part) for name, part in report.parts.items()}
        values = {"unit": report.unit, "parts": parts, "counts": dict(report.counts), "digests": dict(report.digests)}
        write_text(self._path(report.unit), json.dumps(values) + "\n")

    def read(self) -> dict[int, Report]:
        """Unit number → its report, for all units that are done, in the order of their numbers."""
        reports = [self._load(path) for path in self.folder.glob("unit-*.json")]
        return {report.unit: report for report in sorted(reports, key=lambda report: report.unit)}

    def read_one(self, unit: int) -> Report | None:
        """A unit's report; None if it is not done."""
        path = self._path(unit)
        return self._load(path) if path.is_file() else None

    def _path(self, unit: int) -> Path:
        return self.folder / f"unit-{unit:05d}.json"

    def _load(self, path: Path) -> Report:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Report(
            values["unit"], {name: Part(**part) for name, part in values["parts"].items()}, values["counts"], values["digests"]
        )

    def numbers(self) -> set[int]:
        """Units that are done; none if there is no folder, or if the step is completed, and the folder removed, meanwhile."""
        try:
            return {int(path.stem.removeprefix("unit-")) for path in self.folder.iterdir() if path.match("unit-*.json")}
        except FileNotFoundError:
            return set()

    def count(self) -> int:
        """How many units are done."""
        return len(self.numbers())


@dataclass(frozen=True)
class Step:
    """One step of the run in `run`; `outputs` are its folders (path below `run` → record).

    `revision` is a number in the step's code, raised when the code changes so that the same input gives another output.
    """

    run: Path
    name: str
    outputs: Mapping[str, type[Record]]
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    revision: int = 1

    @property
    def work(self) -> Path:
        """Where its units report and keep what only the step itself reads; gone when the step is complete."""
        return self.run / WORK / self.name

    @property
    def reports(self) -> Reports:
        return Reports(self.work)

    def fingerprint(self) -> str:
        """32 hex digits that stand for all that decides the step's output."""
        decisive = {
            "step": self.name,
            "revision": self.revision,
            "settings": self.settings,
            "inputs": self.inputs,
            "schemas": {name: record.fingerprint() for name, record in self.outputs.items()},
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]

    def is_complete(self) -> bool:
        """Whether all folders are committed under this fingerprint. Raises JobError (73) if another job's are in the way."""
        fingerprint = self.fingerprint()
        manifests = {name: read_manifest(self.run / name) for name in self.outputs}
        for name, manifest in manifests.items():
            if manifest is not None and manifest.fingerprint != fingerprint:
                raise JobError(
                    f"{self.run / name} holds the output of another job: {self._difference(manifest)}. "
                    f"Give another --out, or delete that folder and those of the steps after {self.name}",
                    OUTPUT_EXISTS,
                )
        return all(manifests.values())

    def begin(self) -> None:
        """Prepare for the units: delete what a run with other settings left, keep what the same run left."""
        mark = self.work / "fingerprint"
        if not mark.is_file() or mark.read_text(encoding="utf-8").strip() != self.fingerprint():
            shutil.rmtree(self.work, ignore_errors=True)
            write_text(mark, self.fingerprint() + "\n")
        done = self.reports.read().values()
        for name in self.outputs:
            sweep(self.run / name, [report.parts[name].file for report in done if name in report.parts])

    def finish(self, reports: Iterable[Report], counts: Mapping[str, int]) -> None:
        """Commit all folders from the units' reports and remove the work folder."""
        ordered = sorted(reports, key=lambda report: report.unit)
        for name, record in self.outputs.items():
            parts = tuple(report.parts[name] for report in ordered if name in report.parts)
            sweep(self.run / name, [part.file for part in parts])
            (self.run / name).mkdir(parents=True, exist_ok=True)
            Manifest(
                step=self.name,
                record=record.__name__,
                schema=record.fingerprint(),
                fingerprint=self.fingerprint(),
                settings=self.settings,
                inputs=self.inputs,
                version=code_version(),
                rows=sum(part.rows for part in parts),
                counts=dict(counts),
                digests={name: digest for report in ordered for name, digest in report.digests.items()},
                parts=parts,
                revision=self.revision,
            ).write(self.run / name)
        shutil.rmtree(self.work, ignore_errors=True)
        if not any((self.run / WORK).iterdir()):
            (self.run / WORK).rmdir()

    def _difference(self, manifest: Manifest) -> str:
        if manifest.revision != self.revision:
            return (
                f"the code of {self.name} gives another output since (revision {manifest.revision} there, {self.revision} here)"
            )
        for what, here, there in (("settings", self.settings, manifest.settings), ("input", self.inputs, manifest.inputs)):
            for key in sorted({*here, *there}):
                if here.get(key) != there.get(key):
                    return f"{what} {key} = {there.get(key)!r} there, {here.get(key)!r} here"
        return "written with another version's records"


def total(reports: Iterable[Report]) -> Counter[str]:
    """The units' counts added up."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return counts


def code_version() -> str:
    try:
        return version("answermill")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "uninstalled"
