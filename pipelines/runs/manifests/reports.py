"""Reports of a step's units: a small file each, written when the unit is done, that names its parts.

An engine may do a unit several times, and twice at once: it repeats the work of a lost worker, and does a
slow unit again elsewhere. So each attempt writes under names of its own, and the first report stands. A later
attempt takes that report for its own, and deletes the parts that it alone has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from answermill.files.atomic_files import WrongShape
from answermill.files.sealed_json import read_sealed, write_sealed
from answermill.files.store import in_parallel, remove_tree, requests_to, store_of
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.counts import C
from answermill.pipelines.runs.manifests.manifest import Part, damage_of

T = TypeVar("T")
_HELD = 512
"""Most reports that are held until those before them are consumed."""


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
    """Class of the counts that its units report."""
    home: Path | None = None
    """The folder that holds the folders of the parts; None where no unit has parts, or only the reports are
    used."""

    def write(self, report: Report[C]) -> Report[C]:
        """Write a unit's report, unless there is one; return the one that stands. Parts of this attempt that
        it does not name are removed."""
        parts = {name: [asdict(part) for part in own_parts] for name, own_parts in report.parts.items()}
        values = {
            "unit": report.unit,
            "parts": parts,
            "counts": report.counts.to_json(),
            "digests": dict(report.digests),
        }
        if write_sealed(self._path(report.unit), values, replace=False, indent=None):
            return report

        try:
            first = self._load(self._path(report.unit))
        except JobError:  # a damaged report does not stand
            self._path(report.unit).unlink(missing_ok=True)
            return self.write(report)
        for name, own_parts in report.parts.items():
            standing = {part.file for part in first.parts.get(name, ())}
            for path in (
                self._folder_of(name) / part.file for part in own_parts if part.file not in standing
            ):
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
        """Unit number → its report, for all units that are done, in the order of the numbers."""
        return {report.unit: report for report in self.each()}

    def each(self) -> Iterator[Report[C]]:
        """The reports of all units that are done, in the order of the numbers; no more than some hundred are
        held."""
        return self._many(self._load)

    def _many(self, read: Callable[[Path], T]) -> Iterator[T]:
        """Results of `read` on each report's file, in the order of the numbers; in a store many are read at a
        time."""
        units = sorted(self.numbers())
        for first in range(0, len(units), _HELD):
            yield from in_parallel(
                read, map(self._path, units[first : first + _HELD]), requests_to(self.folder)
            )

    def read_one(self, unit: int) -> Report[C] | None:
        """A unit's report; None if it is not done."""
        try:
            return self._load(self._path(unit))
        except FileNotFoundError:
            return None

    def has(self, unit: int) -> bool:
        """True if a unit is done; its report is not read."""
        return self._path(unit).is_file()

    def _path(self, unit: int) -> Path:
        return self.folder / f"unit-{unit:05d}.json"

    def _load(self, path: Path) -> Report[C]:
        """The report in a file. Raises JobError (65) if it is not one."""
        try:
            values = read_sealed(path, _ReportFile)
            counts = self.kind.from_json(values.counts)
        except (WrongShape, ValueError) as e:
            raise JobError(
                f"not a unit's report: {e}; the same command does the unit again", BAD_DATA
            ) from None
        return Report(values.unit, values.parts, counts, values.digests)

    def sound(self, damage: list[str]) -> Iterator[Report[C]]:
        """The reports whose parts are as they were written. Deletes the others, and adds what is wrong with
        them to `damage`.

        A part that is a file is compared by its SHA-256, a shard by the sizes of its files. In a store, which
        has a file whole or not at all, all parts are compared by size.
        """

        def inspect(path: Path) -> Report[C] | tuple[Path, str]:
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

        for result in self._many(inspect):
            if isinstance(result, Report):
                yield result
            else:
                path, wrong = result
                path.unlink(missing_ok=True)  # in a store another command may have deleted it
                damage.append(wrong)

    def forget(self, units: Iterable[int]) -> None:
        """Delete the reports of these units, if there are any, so that they are done again."""
        for unit in units:
            self._path(unit).unlink(missing_ok=True)

    def numbers(self) -> set[int]:
        """Numbers of the units that are done."""
        return units_done(self.folder)

    def count(self) -> int:
        """Number of units that are done."""
        return len(self.numbers())


def units_done(folder: Path) -> set[int]:
    """Numbers of the units with a report in a work folder; none if the folder was removed meanwhile, since
    the step is complete."""
    try:
        names = (path.name for path in folder.iterdir())
        return {int(name[5:-5]) for name in names if name.startswith("unit-") and name.endswith(".json")}
    except FileNotFoundError:
        return set()
