"""What the units of a step report: a small file each, written when the unit is done, that names its parts.

An engine may do a unit several times, and twice at once: it repeats what a lost worker may have done, and does again elsewhere
what is slow. So each attempt writes under names of its own, and the first report stands. An attempt that comes later takes
that one for its own, and deletes the parts that it alone has written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pipelines.errors import BAD_DATA, JobError
from pipelines.execution.manifests.manifest import Part, damage_of
from schemas.atomic_files import WrongShape, read_json, write_text
from schemas.storage.remote import Remote
from schemas.storage.store import each, remove_tree, requests_to


@dataclass(frozen=True, slots=True)
class Report:
    """What one unit wrote: its part in each output folder, and counts to be added up."""

    unit: int
    parts: Mapping[str, Part] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the input files that it has read, by name."""


@dataclass(frozen=True, slots=True)
class _ReportFile:
    """The shape of a report's file: no value may be missing."""

    unit: int
    parts: dict[str, Part]
    counts: dict[str, int]
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a step's units in `folder`, one file each, so that any number of workers can write at once."""

    folder: Path
    home: Path | None = None
    """Below which the folders of the parts are; None where no unit has parts, or nothing but the reports is asked for."""

    def write(self, report: Report) -> Report:
        """Write a unit's report, unless there is one; returns the one that stands. Of this attempt's parts those go that it
        does not name."""
        parts = {name: asdict(part) for name, part in report.parts.items()}
        values = {"unit": report.unit, "parts": parts, "counts": dict(report.counts), "digests": dict(report.digests)}
        if write_text(self._path(report.unit), json.dumps(values) + "\n", replace=False):
            return report
        first = self._load(self._path(report.unit))
        for name, part in report.parts.items():
            if name not in first.parts or first.parts[name].file != part.file:
                path = self._folder_of(name) / part.file
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink(missing_ok=True)  # a third attempt may have written the same file, and deleted it
        return first

    def _folder_of(self, name: str) -> Path:
        assert self.home is not None, f"{self.folder}: reports with parts need a home"
        return self.home / name

    def read(self) -> dict[int, Report]:
        """Unit number → its report, for all units that are done, in the order of their numbers."""
        reports = each(self._load, self.folder.glob("unit-*.json"), at_once=requests_to(self.folder))
        return {report.unit: report for report in sorted(reports, key=lambda report: report.unit)}

    def read_one(self, unit: int) -> Report | None:
        """A unit's report; None if it is not done."""
        try:
            return self._load(self._path(unit))
        except FileNotFoundError:
            return None

    def _path(self, unit: int) -> Path:
        return self.folder / f"unit-{unit:05d}.json"

    def _load(self, path: Path) -> Report:
        """Raises JobError (65) if the file is not a report."""
        try:
            values = read_json(path, _ReportFile)
        except WrongShape as e:
            raise JobError(f"not a unit's report: {e}; the same command does the unit again", BAD_DATA) from None
        return Report(values.unit, values.parts, values.counts, values.digests)

    def drop_damaged(self) -> list[str]:
        """Delete the reports that are unreadable, and those whose parts are not as they were written; returns what is wrong.

        A part that is a file is read and its SHA-256 compared; of a shard the sizes of its files are, and in a store, which
        has a file whole or not at all, those of all parts.
        """
        damage = []
        for path in sorted(self.folder.glob("unit-*.json")):
            try:
                parts = self._load(path).parts
            except JobError as e:
                wrong: str | None = str(e)
            else:
                folders = ((self._folder_of(name), part) for name, part in parts.items())
                wrongs = (
                    damage_of(folder, part, not isinstance(folder, Remote) and (folder / part.file).is_file())
                    for folder, part in folders
                )
                wrong = next((each for each in wrongs if each is not None), None)
            if wrong is not None:
                path.unlink()
                damage.append(wrong)
        return damage

    def forget(self, units: Iterable[int]) -> None:
        """Delete the reports of these units, so that they are done again."""
        for unit in units:
            self._path(unit).unlink()

    def numbers(self) -> set[int]:
        """Units that are done; none if there is no folder, or if the step is completed, and the folder removed, meanwhile."""
        try:
            return {int(path.stem.removeprefix("unit-")) for path in self.folder.iterdir() if path.match("unit-*.json")}
        except FileNotFoundError:
            return set()

    def count(self) -> int:
        """How many units are done."""
        return len(self.numbers())


def total(reports: Iterable[Report]) -> Counter[str]:
    """The units' counts added up."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return counts
