"""The files of a run, byte for byte: named files must be as they were written, and others must not be there.

A manifest carries its own SHA-256; it names its parts, tables and the files beside it, a shard its own files.
`inputs.json`, reports and packs are sealed as manifests are, and name files in `digests`. Files of a store
are read in the store, not as copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from answermill.files.atomic_files import ListedFile, WrongShape
from answermill.files.sealed_json import read_sealed
from answermill.files.store import blocks_of, store_of
from answermill.pipelines.errors import JobError
from answermill.pipelines.look.verify.finding import CHANGED, Finding, Remedy
from answermill.pipelines.runs.manifests.manifest import MANIFEST, SHARD_FILE, Manifest, Part, shard_listing
from answermill.pipelines.runs.spec import SealedFile
from answermill.pipelines.specs.registry import REPORT_FILE, SPECS, folder_specs, folders

PLACES = {file.place for spec in SPECS.values() for file in spec.files} - {""}
"""Folders without a manifest, in which people may work and a sealed file names every file."""
GIVE_A_RUN = "give the folder of a run, what `run` has as --out"
OnRead = Callable[[int], object]
"""Called with the number of bytes that were read."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    digests: dict[str, str] = field(default_factory=dict)


@dataclass
class RunFiles:
    """Files of the run in `run`, and its readable manifests. `check` finds faults of them."""

    run: Path
    sizes: dict[str, int] = field(default_factory=dict)
    """Path below the run → bytes, of every file except those of _work/ and those whose path begins with a
    dot."""
    manifests: dict[str, Manifest] = field(default_factory=dict)
    """Committed folder → its manifest."""
    unreadable: list[Finding] = field(default_factory=list)
    """Findings of damaged manifests."""
    damaged: set[str] = field(default_factory=set)
    """Folders with a damaged file, as far as `check` has read."""
    named: set[str] = field(default_factory=set)
    """Paths below the run that a manifest or a sealed file names, as far as `check` has read."""

    @classmethod
    def of(cls, run: Path) -> RunFiles:
        """List a run's files and read its manifests. Raises OSError if it cannot be listed."""
        files = cls(run, dict(_listed(run)))
        for spec, folder in folders():
            name = f"{folder.name}/{MANIFEST}"
            if name not in files.sizes:
                continue

            try:
                manifest = folder.manifest(run)
            except JobError as e:
                files.unreadable.append(Finding(name, e.fault, spec.name, Remedy.AGAIN))
                continue

            if manifest is not None:
                files.manifests[folder.name] = manifest

        return files

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def check(self, on_read: OnRead) -> Iterator[Finding]:
        """All faults of the files; reads each of them."""
        yield from self.unreadable
        for folder, manifest in self.manifests.items():
            self.named.add(f"{folder}/{MANIFEST}")
            for finding in self._check_folder(folder, manifest, on_read):
                self.damaged.add(folder)
                yield finding
        yield from self._sealed(on_read)
        yield from self._strays()

    def _check_folder(self, folder: str, manifest: Manifest, on_read: OnRead) -> Iterator[Finding]:
        """Faults of the files that a manifest names."""
        for table in manifest.tables.values():
            listed = ListedFile(table.bytes, table.sha256)
            if (wrong := self._wrong(f"{folder}/{table.file}", listed, on_read)) is not None:
                yield Finding(
                    f"{folder}/{MANIFEST}", f"names {table.file}, which {wrong}", manifest.step, Remedy.AGAIN
                )
                return

        for part in manifest.parts:
            name = f"{folder}/{part.file}"
            is_folder = folder_specs()[folder].part_is_folder
            files = (
                self._shard(name, part, on_read) if is_folder else {name: ListedFile(part.bytes, part.sha256)}
            )
            for path, listed in files.items():
                if (wrong := self._wrong(path, listed, on_read)) is not None:
                    yield Finding(path, wrong, manifest.step, Remedy.AGAIN)

        for part in manifest.beside:
            if (wrong := self._wrong(part.file, ListedFile(part.bytes, part.sha256), on_read)) is not None:
                yield Finding(part.file, wrong, manifest.step, Remedy.AGAIN)

    def _shard(self, name: str, part: Part, on_read: OnRead) -> Mapping[str, ListedFile]:
        """Files of a shard as they were written; only its listing, if that is damaged."""
        listing = f"{name}/{SHARD_FILE}"
        listed = {listing: ListedFile(self.sizes.get(listing, 0), part.sha256)}
        if self._wrong(listing, listed[listing], on_read) is not None:
            self.named |= {path for path in self.sizes if path.startswith(f"{name}/")}
            return listed

        files = shard_listing(self.run / name, part.sha256)
        return listed | {f"{name}/{path}": file for path, file in files.items()}

    def _wrong(self, path: str, written: ListedFile, on_read: OnRead) -> str | None:
        """Fault of a file as a clause, 'is missing'; None if there is none."""
        self.named.add(path)
        if path not in self.sizes:
            return "is missing"
        if self.sizes[path] != written.size:
            return f"has {self.sizes[path]:,} bytes, {written.size:,} were written"
        return None if self._digest(path, on_read) == written.sha256 else CHANGED

    def _digest(self, path: str, on_read: OnRead) -> str:
        digest = hashlib.sha256()
        for block in blocks_of(self.run / path):
            digest.update(block)
            on_read(len(block))
        return digest.hexdigest()

    def _sealed(self, on_read: OnRead) -> Iterator[Finding]:
        """Faults of files that name others, or that no manifest names."""
        sealed = [(spec.name, file) for spec in SPECS.values() for file in spec.files]
        for step, file in [*sealed, ("", REPORT_FILE)]:
            check = self._lent_file if file.sealed_by else self._sealed_file
            yield from check(file, step, on_read)

    def _sealed_file(self, file: SealedFile, step: str, on_read: OnRead) -> Iterator[Finding]:
        place = file.place
        beside = {path for path in self.sizes if place and path.startswith(f"{place}/")}
        if file.path not in self.sizes:
            needing = self.manifests.get(file.needed_by)
            if (
                beside
                or (needing is not None and needing.step == step)
                or (not step and file.needed_by in self.sizes)
            ):
                yield Finding(file.path, "is missing", step, Remedy.REWRITE)
                self.named.update(beside)
            return

        if place and step and (absent := self._absent_folders(step)):
            yield Finding(
                absent[0], f"is not there or not complete, and {place} were made of it", step, Remedy.AGAIN
            )

        self.named.add(file.path)
        try:
            digests = read_sealed(self.run / file.path, _Sealed).digests
        except WrongShape as e:
            yield Finding(file.path, e.fault, step, Remedy.REWRITE)
            self.named |= beside
            return

        for name, digest in digests.items():
            path = f"{place}/{name}".lstrip("/")
            if (wrong := self._wrong(path, ListedFile(self.sizes.get(path, 0), digest), on_read)) is not None:
                yield Finding(path, wrong, step, Remedy.REWRITE)

    def _absent_folders(self, step: str) -> list[str]:
        """Folders of a step without any manifest."""
        unreadable = {finding.path.rpartition("/")[0] for finding in self.unreadable}
        return [folder.name for folder in SPECS[step] if folder.name not in {*self.manifests, *unreadable}]

    def _lent_file(self, file: SealedFile, step: str, on_read: OnRead) -> Iterator[Finding]:
        """Fault of a file that people may take away: it is there, but not as it was written.

        A manifest names the file that has its digest.
        """
        if file.sealed_by not in self.named or file.path not in self.sizes:
            return
        self.named.add(file.path)
        try:
            digest = file.written_digest(self.run)
        except (FileNotFoundError, WrongShape):
            return  # another finding is about this
        if self._digest(file.path, on_read) != digest:
            yield Finding(file.path, "was filled in, or damaged, since it was written", step, Remedy.AGAIN)

    def _strays(self) -> Iterator[Finding]:
        """Files in committed folders, in shards and in packs that nothing names: readers of
        `FOLDER/*.parquet` would read them."""
        places = tuple(f"{place}/" for place in (*self.manifests, *PLACES))
        for path in sorted(self.sizes.keys() - self.named):
            if path.startswith(places):
                yield Finding(path, "is named by no manifest", "", Remedy.STRAY)


def _listed(run: Path) -> Iterator[tuple[str, int]]:
    """(path below the run, bytes) of every file, in order, without the work folder's and those that begin
    with a dot."""
    paths = ((path.relative_to(run).as_posix(), path.stat().st_size) for path in store_of(run).files())
    yield from sorted((path, size) for path, size in paths if not path.startswith(("_work/", ".")))
