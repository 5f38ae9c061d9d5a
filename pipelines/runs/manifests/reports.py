"""What the units of a step report: a small file each, written when the unit is done, that names its parts.

An engine may do a unit several times, and twice at once: it repeats what a lost worker may have done, and
does again elsewhere what is slow. So each attempt writes under names of its own, and the first report stands.
An attempt that comes later takes that one for its own, and deletes the parts that it alone has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from answermill.files.atomic_files import WrongShape
from answermill.files.sealed_json import read_sealed, write_sealed
from answermill.files.store import each, remove_tree, requests_to, store_of
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.counts import C
from answermill.pipelines.runs.manifests.manifest import Part, damage_of

T = TypeVar("T")
_HELD = 512
"""Reports that are held, until those before them are taken."""


@dataclass(frozen=True, slots=True)
class Report(Generic[C]):
    """A unit's work: its parts in each output folder, and its counts."""

    unit: int
    parts: Mapping[str, Sequence[Part]]
    counts: C
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the input files that it has read, by name."""


@dataclass(frozen=True, slots=True)
class _ReportFile:
    """The shape of a report's file: no value may be missing."""

    unit: int
    parts: dict[str, tuple[Part, ...]]
    counts: dict[str, Any]
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class Reports(Generic[C]):
    """The reports of a step's units in `folder`, one file each, so that any number of workers can write at
    once."""

    folder: Path
    kind: type[C]
    """The counts that its units report."""
    home: Path | None = None
    """Below which the folders of the parts are; None where no unit has parts, or nothing but the reports is
    asked for."""

    def write(self, report: Report[C]) -> Report[C]:
        """Write a unit's report, unless there is one; returns the one that stands. Of this attempt's parts
        those go that it does not name."""
        parts = {name: [asdict(part) for part in written] for name, written in report.parts.items()}
        values = {
            "unit": report.unit,
            "parts": parts,
            "counts": report.counts.to_json(),
            "digests": dict(report.digests),
        }
        if write_sealed(self._path(report.unit), values, replace=False, indent=None):
            return report

        first = self._load(self._path(report.unit))
        for name, written in report.parts.items():
            standing = {part.file for part in first.parts.get(name, ())}
            for path in (self._folder_of(name) / part.file for part in written if part.file not in standing):
                if path.is_dir():
                    remove_tree(path)
                else:
                    # A third attempt may have written the same file, and deleted it.
                    path.unlink(missing_ok=True)

        return first

    def _folder_of(self, name: str) -> Path:
        assert self.home is not None, f"{self.folder}: reports with parts need a home"
        return self.home / name

    def read(self) -> dict[int, Report[C]]:
        """Unit number → its report, for all units that are done, in the order of their numbers."""
        return {report.unit: report for report in self.each()}

    def each(self) -> Iterator[Report[C]]:
        """The reports of all units that are done, in the order of their numbers; no more than some hundred
        are held."""
        return self._many(self._load)

    def _many(self, read: Callable[[Path], T]) -> Iterator[T]:
        """What `read` makes of each report's file, in the order of their numbers; in a store many are read at
        a time."""
        units = sorted(self.numbers())
        for first in range(0, len(units), _HELD):
            yield from each(read, map(self._path, units[first : first + _HELD]), requests_to(self.folder))

    def read_one(self, unit: int) -> Report[C] | None:
        """A unit's report; None if it is not done."""
        try:
            return self._load(self._path(unit))
        except FileNotFoundError:
            return None

    def has(self, unit: int) -> bool:
        """Whether a unit is done; its report is not read."""
        return self._path(unit).is_file()

    def _path(self, unit: int) -> Path:
        return self.folder / f"unit-{unit:05d}.json"

    def _load(self, path: Path) -> Report[C]:
        """Raises JobError (65) if the file is not a report."""
        try:
            values = read_sealed(path, _ReportFile)
            counts = self.kind.from_json(values.counts)
        except (WrongShape, ValueError) as e:
            raise JobError(
                f"not a unit's report: {e}; the same command does the unit again", BAD_DATA
            ) from None
        return Report(values.unit, values.parts, counts, values.digests)

    def sound(self, damage: list[str]) -> Iterator[Report[C]]:
        """The reports whose parts are as they were written. Deletes the others, and adds to `damage` what is
        wrong with them.

        A part that is a file is read and its SHA-256 compared; of a shard the sizes of its files are, and in
        a store, which has a file whole or not at all, those of all parts.
        """

        def look(path: Path) -> Report[C] | tuple[Path, str]:
            try:
                report = self._load(path)
            except JobError as e:
                return path, str(e)
            for name, parts in report.parts.items():
                folder = self._folder_of(name)
                for part in parts:
                    checksums = store_of(folder).is_local and (folder / part.file).is_file()
                    if (wrong := damage_of(folder, part, checksums)) is not None:
                        return path, wrong
            return report

        for seen in self._many(look):
            if isinstance(seen, Report):
                yield seen
            else:
                seen[0].unlink(missing_ok=True)  # in a store another command may have deleted it
                damage.append(seen[1])

    def forget(self, units: Iterable[int]) -> None:
        """Delete the reports of these units, as far as they are there, so that they are done again."""
        for unit in units:
            self._path(unit).unlink(missing_ok=True)

    def numbers(self) -> set[int]:
        """Units that are done, as `units_done`."""
        return units_done(self.folder)

    def count(self) -> int:
        """Number of units that are done."""
        return len(self.numbers())


def units_done(folder: Path) -> set[int]:
    """Units with a report in a work folder; none if the step is completed, and the folder removed,
    meanwhile."""
    try:
        names = (path.name for path in folder.iterdir())
        return {int(name[5:-5]) for name in names if name.startswith("unit-") and name.endswith(".json")}
    except FileNotFoundError:
        return set()
