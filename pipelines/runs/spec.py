"""Descriptions of steps and of the folders that they write: plain values, over which every command about a
run is a loop.

A step's own description is in `specs/`; nothing here, or in the code for manifests, knows the name of a step.
Records, sections and code are named by their place and imported when they are used, so that a list of
commands needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from answermill.pipelines.runs.counts import StepCounts

if TYPE_CHECKING:
    from answermill.pipelines.runs.manifests.manifest import Manifest
    from answermill.pipelines.runs.parquet_folder import Folder, Part, PartWriter
    from answermill.schemas.record import Record
    from answermill.schemas.section import Section

R = TypeVar("R", bound="Record")
AnyCounts = TypeVar("AnyCounts", bound=StepCounts)
BATCHES = "batches"
"""The folder of a step's further batches: 2/ in it is as a run, and holds what the step writes for the
second."""


@dataclass(frozen=True, slots=True)
class Maker:
    """The command that writes some folders: a step of a job, or another command."""

    step: str
    command: str = ""
    """Arguments of a command that is no step of a job: 'collect {run} EXPORT'."""
    removes: tuple[str, ...] = ()
    """Folders of such a command that are to be deleted before it writes them again."""

    def line(self, run: Path, option: str = "") -> str:
        """The command to type, for a run or for the folder of a further batch in it. `option`: 'redo' or
        'verify', which a step of a job takes."""
        if not self.step:
            return "the command that wrote it"
        if self.command:
            return f"`answermill {self.command.format(run=run)}`"
        if _batch(run):
            return f"{self.first(run)}, with the other settings of that batch,"
        return f"`answermill run JOB.toml --out {run}{f' --{option} {self.step}' if option else ''}`"

    def again(self, run: Path, option: str = "redo") -> str:
        """The end of a message: what to type so that the folders are made again. `option`: see `remedy`."""
        return f"{self.remedy(run, option)} makes it again"

    def remedy(self, run: Path, option: str = "redo", folder: Path | None = None) -> str:
        """What to type so that the folders are made again.

        `option`: 'redo' is for all of them and what follows from them; 'verify' for the files whose bytes
        were changed; '' for what every run notices, sizes and files that are missing. `folder`: the damaged
        one, where the words before do not name it.
        """
        first = f"delete {folder or 'that folder'}, then " if _batch(run) and option else ""
        if self.removes and option == "redo":
            *others, last = [str(run / name) for name in self.removes]
            first = f"delete {', '.join(others)} and {last}, then " if others else f"delete {last}, then "
        return f"{first}{self.line(run, option)}"

    def first(self, run: Path) -> str:
        """The command to type where the folders do not exist yet."""
        if self.command:
            return f"`answermill {self.command.format(run=run)}`"
        if number := _batch(run):
            return (
                f"`answermill {self.step} JOB.toml --out {run.parents[1]} --set {self.step}.batch={number}`"
            )
        return f"`answermill {self.step} JOB.toml --out {run}`"


def _batch(run: Path) -> str:
    """The number of the further batch whose folder this is; '' of a run."""
    return run.name if run.parent.name == BATCHES and run.name.isdecimal() else ""


UNKNOWN = Maker("")
"""The maker of an unknown folder."""


@dataclass(frozen=True)
class FolderSpec(Generic[R]):
    """A folder of a run: its records, and properties of its rows."""

    name: str
    """Path below the run folder."""
    kind: str
    """'module:Class' of its record, such as 'answermill.schemas.ranked:Hit'."""
    maker: Maker
    key: tuple[str, ...] = ()
    """Columns whose values together are different in every row."""
    list_of: str = ""
    """The column whose rows follow one another as a list, with ranks from 1 in the column `rank`."""
    candidate: tuple[str, ...] = ()
    """Columns that together identify the candidate of a row; a list has each candidate once."""
    fate: str = ""
    """The column of a list that names the addend of `rows` (`StepCounts.sums`) in which a row was counted.
    Without one, every row has a rank."""
    filled: Mapping[str, str] = field(default_factory=dict)
    """Fate → the column that has a value in the rows of this fate and in no others."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Column → the folder that has each of its values as its first key; 'passage.passage_id' is a field of a
    column."""
    rows: str = ""
    """The field or property of the step's counts that is the number of its rows."""
    same_rows_as: str = ""
    """Another folder with as many rows."""
    cut_from: str = ""
    """The folder of the documents, in the same order, from whose texts the rows are cut."""
    beside: tuple[str, ...] = ()
    """Files of the run folder that are written with it, and that its manifest names."""
    optional: bool = False
    """True if it is written only if it has a row."""
    part_is_folder: bool = False
    """True if a part is a folder whose files its own listing names, such as a shard."""

    @classmethod
    def of(cls, name: str, record: type[R], maker: Maker) -> FolderSpec[R]:
        """A folder of a record in memory."""
        return cls(name, f"{record.__module__}:{record.__qualname__}", maker)

    @property
    def record(self) -> type[R]:
        """Its record; the module is imported now."""
        record: type[R] = resolve_name(self.kind)
        return record

    def path(self, run: Path) -> Path:
        """Its place in a run, or in a step's work folder, which may have folders of the same records."""
        return run / self.name

    def writer(self, run: Path, unit: int) -> PartWriter[R]:
        """A writer of a unit's parts of it."""
        from answermill.pipelines.runs.parquet_folder import PartWriter

        return PartWriter(self.path(run), self.record, unit)

    def read_part(self, run: Path, part: Part) -> Iterator[R]:
        """The rows of one of its parts, which need not be committed."""
        from answermill.pipelines.runs.parquet_folder import read_part

        return read_part(self.path(run), part, self.record)

    def open(self, run: Path) -> Folder[R]:
        """The committed folder. Raises JobError: 66 if it has no manifest, 65 if it holds something else."""
        from answermill.pipelines.runs.parquet_folder import Folder

        return Folder.open(self.path(run), self)

    def find(self, run: Path) -> Folder[R] | None:
        """The committed folder; None if it has no manifest. Raises JobError (65) as `open`."""
        from answermill.pipelines.runs.manifests.manifest import MANIFEST

        return self.open(run) if (self.path(run) / MANIFEST).is_file() else None

    def manifest(self, run: Path) -> Manifest | None:
        """Its manifest; None if it has none. Raises JobError (65) if it is not one that this version
        wrote."""
        from answermill.pipelines.runs.manifests.manifest import read_manifest

        return read_manifest(self.path(run), self.maker, run)


@dataclass(frozen=True)
class SealedFile:
    """A file of a run that no manifest names: its SHA-256 is in the file itself, beside those of files that
    it names, or in another file."""

    path: str
    needed_by: str = ""
    """The folder beside which it must be."""
    sealed_by: str = ""
    """The JSON file that has its SHA-256; '' if it has its own. People may take such a file away to fill it
    in."""
    digest_key: str = ""
    """Key of the SHA-256 in `sealed_by`."""

    @property
    def place(self) -> str:
        """The folder that holds it; '' if that is the run itself."""
        return self.path.rpartition("/")[0]

    def written_digest(self, run: Path) -> str:
        """Its SHA-256, from `sealed_by`. Raises FileNotFoundError, or WrongShape if that holds none."""
        from answermill.files.atomic_files import WrongShape, read_json  # late: they import pydantic

        file = run / self.sealed_by
        digest = read_json(file, dict[str, Any]).get(self.digest_key)
        if not isinstance(digest, str):
            raise WrongShape(file, f"has no {self.digest_key}")
        return digest


@dataclass(frozen=True)
class StepSpec(Generic[AnyCounts]):
    """A step, as everything but its own code sees it."""

    maker: Maker
    about: str
    """Help text of its command; the first line is in the list of commands."""
    folders: tuple[FolderSpec[Any], ...]
    """The folders that it writes; the first one's manifest has the counts of its units."""
    counts: type[AnyCounts]
    settings: str = ""
    """'module:Class' of the section that a job file has under its name; empty for another command."""
    reads: tuple[str, ...] = ()
    """Folders of other steps without which it cannot begin."""
    item: str = ""
    """The field of its counts that its time grows with."""
    code: str = ""
    """'module:NAME' of the StepCode, imported when it runs."""
    revision: int = 1
    """Raised when the step's code changes so that the same input gives another output."""
    units_stand_alone: bool = False
    """True if a unit can be done again alone when the step is complete: it needs nothing that other units
    left in the work folder."""
    replaced_whole: bool = False
    """True if its folders are built in its work folder and replace earlier ones all at once."""
    files: tuple[SealedFile, ...] = ()
    batches: str = ""
    """The folder of a run that holds the step's output for further batches, in folders named 2, 3, …; '' if
    there are none."""
    adds: str = ""
    """For a step with batches: a clause with what to type for another one."""
    is_main: bool = False
    """True if a report names it as missing even if nothing of it was begun."""

    @property
    def name(self) -> str:
        """Name of the step, of its command, and of its section in a job file."""
        return self.maker.step

    @property
    def section(self) -> type[Section]:
        """The class of its settings; the module is imported now."""
        section: type[Section] = resolve_name(self.settings)
        return section

    def place(self, run: Path, batch: int) -> Path:
        """The folder of a batch's output, where its folders are as in a run: the run itself for the first."""
        return run if batch == 1 else run / self.batches / str(batch)

    def places(self, run: Path) -> list[Path]:
        """The folders of all batches whose output is committed, the first batch first."""
        from answermill.pipelines.runs.manifests.manifest import MANIFEST

        places: list[Path] = []
        while (self.folders[0].path(place := self.place(run, len(places) + 1)) / MANIFEST).is_file():
            places.append(place)
            if not self.batches:
                break
        return places

    def __iter__(self) -> Iterator[FolderSpec[Any]]:
        return iter(self.folders)

    def absent(self, manifests: Mapping[str, Manifest]) -> list[str]:
        """Names of the folders that it has not committed; `manifests`: folder → manifest of the others."""
        return [
            folder.name
            for folder in self.folders
            if folder.name not in manifests
            and not (
                folder.optional
                and not any(manifest.counts.get("failed_units") for manifest in manifests.values())
            )
        ]

    def counts_of(self, manifest: Manifest | None) -> AnyCounts:
        """The counts in one of its manifests; zeros without one. Raises JobError (65) if they are not this
        version's."""
        from answermill.pipelines.errors import BAD_DATA, JobError

        try:
            return self.counts.from_json(manifest.counts if manifest is not None else {})
        except ValueError as e:
            raise JobError(
                f"the manifest of {self.name} has other counts than this version: {e}", BAD_DATA
            ) from None

    def within(
        self, name: str, folders: tuple[FolderSpec[Any], ...], counts: type[StepCounts]
    ) -> StepSpec[Any]:
        """A pass within the step, which has its own units, folders and counts."""
        maker = replace(self.maker, step=f"{self.name}/{name}")
        return StepSpec(maker, self.about, folders, counts, revision=self.revision)
