"""The files of a run, byte for byte: each that a manifest names is as it was written, and none is there that nothing names.

A manifest carries its own SHA-256; it names its parts, tables and the files beside it, a shard its own files. `inputs.json`,
reports and packs are sealed as manifests are, and name files in `digests`. A file of a store is read itself, not a copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from answermill.files.atomic_files import ListedFile, WrongShape, read_json
from answermill.files.sealed_json import read_sealed
from answermill.files.store import blocks_of, store_of
from answermill.pipelines.config.outputs import AGREEMENT, INPUTS, OPEN_TASKS, PACK_SUMMARY, REPORT, REPORT_PAGE
from answermill.pipelines.config.step_registry import folders
from answermill.pipelines.errors import JobError
from answermill.pipelines.look.verify.finding import CHANGED, Finding, Remedy
from answermill.pipelines.runs.manifests.manifest import MANIFEST, SHARD_FILE, Manifest, Part, read_manifest, shard_listing

PACKS, VOTES, COLLECTED_PACK = f"packs/{PACK_SUMMARY}", f"collected/{AGREEMENT}", f"collected/{OPEN_TASKS}"
TASKS = "tasks"
SEALED = {INPUTS: "ingest", PACKS: "annotate", REPORT: ""}
"""Sealed files that no manifest names → the steps that write them; a report is written at the end of a run."""
Read = Callable[[int], object]
"""Hears how many bytes were read."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    digests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Agreement:
    adjudication_sha256: str


@dataclass
class RunFiles:
    """The run in `run`: its files, and the manifests that can be read. `check` says what is wrong with them."""

    run: Path
    sizes: dict[str, int] = field(default_factory=dict)
    """Path below the run → bytes, of every file but those of _work/, and those whose path begins with a dot."""
    manifests: dict[str, Manifest] = field(default_factory=dict)
    """Committed folder → its manifest."""
    unreadable: list[Finding] = field(default_factory=list)
    """Manifests that are none."""
    damaged: set[str] = field(default_factory=set)
    """Folders with a damaged file, as far as `check` has looked."""
    named: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, run: Path) -> RunFiles:
        """Raises OSError if it cannot be listed."""
        files = cls(run, dict(_listed(run)))
        for step, outputs in folders().items():
            for folder in outputs:
                if f"{folder}/{MANIFEST}" not in files.sizes:
                    continue
                try:
                    manifest = read_manifest(run / folder, step)
                except JobError as e:
                    what = str(e).partition(str(run / folder / MANIFEST))[2].partition("; `")[0].lstrip(": ")
                    finding = Finding(f"{folder}/{MANIFEST}", what or str(e).partition("; `")[0], step, Remedy.AGAIN)
                    files.unreadable.append(finding)
                    continue
                if manifest is not None:
                    files.manifests[folder] = manifest
        return files

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def check(self, tell: Read) -> Iterator[Finding]:
        """Everything that is wrong with the files; reads each of them."""
        yield from self.unreadable
        for folder, manifest in self.manifests.items():
            self.named.add(f"{folder}/{MANIFEST}")
            for finding in self._of_manifest(folder, manifest, tell):
                self.damaged.add(folder)
                yield finding
        yield from self._sealed(tell)
        yield from self._strays()

    def _of_manifest(self, folder: str, manifest: Manifest, tell: Read) -> Iterator[Finding]:
        for table in manifest.tables.values():
            listed = ListedFile(table.bytes, table.sha256)
            if (wrong := self._wrong(f"{folder}/{table.file}", listed, tell)) is not None:
                yield Finding(f"{folder}/{MANIFEST}", f"names {table.file}, which {wrong}", manifest.step, Remedy.AGAIN)
                return
        for part in manifest.parts:
            name = f"{folder}/{part.file}"
            files = self._shard(name, part, tell) if manifest.step == "index" else {name: ListedFile(part.bytes, part.sha256)}
            for path, listed in files.items():
                if (wrong := self._wrong(path, listed, tell)) is not None:
                    yield Finding(path, wrong, manifest.step, Remedy.AGAIN)
        for part in manifest.beside:
            if (wrong := self._wrong(part.file, ListedFile(part.bytes, part.sha256), tell)) is not None:
                yield Finding(part.file, wrong, manifest.step, Remedy.AGAIN)

    def _shard(self, name: str, part: Part, tell: Read) -> Mapping[str, ListedFile]:
        """The files of a shard as they were written; if its own listing is damaged, that alone."""
        listing = f"{name}/{SHARD_FILE}"
        listed = {listing: ListedFile(self.sizes.get(listing, 0), part.sha256)}
        if self._wrong(listing, listed[listing], tell) is not None:
            self.named |= {path for path in self.sizes if path.startswith(f"{name}/")}
            return listed
        return listed | {f"{name}/{each}": file for each, file in shard_listing(self.run / name, part.sha256).items()}

    def _wrong(self, path: str, written: ListedFile, tell: Read) -> str | None:
        """What is wrong with a file, 'is missing'; None if nothing is."""
        self.named.add(path)
        if path not in self.sizes:
            return "is missing"
        if self.sizes[path] != written.size:
            return f"has {self.sizes[path]:,} bytes, {written.size:,} were written"
        return None if self._digest(path, tell) == written.sha256 else CHANGED

    def _digest(self, path: str, tell: Read) -> str:
        digest = hashlib.sha256()
        for block in blocks_of(self.run / path):
            digest.update(block)
            tell(len(block))
        return digest.hexdigest()

    def _sealed(self, tell: Read) -> Iterator[Finding]:
        """Files that name others, or are none of a manifest's."""
        if "documents" in self.manifests and self.manifests["documents"].step == "ingest" and INPUTS not in self.sizes:
            yield Finding(INPUTS, "is missing", "ingest", Remedy.REWRITE)
        if PACKS not in self.sizes and (packed := [each for each in self.sizes if each.startswith("packs/")]):
            yield Finding(PACKS, "is missing", "annotate", Remedy.REWRITE)
            self.named.update(packed)
        if PACKS in self.sizes and TASKS not in {*self.manifests, *(Path(each.path).parent.name for each in self.unreadable)}:
            yield Finding(TASKS, "is not there or not complete, and packs were made of it", "annotate", Remedy.AGAIN)
        if REPORT_PAGE in self.sizes and REPORT not in self.sizes:
            yield Finding(REPORT, "is missing", "", Remedy.REWRITE)
        for path, step in SEALED.items():
            if path not in self.sizes:
                continue
            self.named.add(path)
            try:
                digests = read_sealed(self.run / path, _Sealed).digests
            except WrongShape as e:
                yield Finding(path, str(e).removeprefix(str(self.run / path)).lstrip(": "), step, Remedy.REWRITE)
                self.named |= {each for each in self.sizes if path == PACKS and each.startswith("packs/")}
                continue
            for name, digest in digests.items():
                below = f"{path.rpartition('/')[0]}/{name}".lstrip("/")
                listed = ListedFile(self.sizes.get(below, 0), digest)
                if (wrong := self._wrong(below, listed, tell)) is not None:
                    yield Finding(below, wrong, step, Remedy.REWRITE)
        if VOTES in self.named and COLLECTED_PACK in self.sizes:
            self.named.add(COLLECTED_PACK)
            try:
                digest = read_json(self.run / VOTES, _Agreement).adjudication_sha256
            except WrongShape:
                return  # of which there is a finding
            if self._digest(COLLECTED_PACK, tell) != digest:
                yield Finding(COLLECTED_PACK, "was filled in, or damaged, since it was written", "collect", Remedy.AGAIN)

    def _strays(self) -> Iterator[Finding]:
        """Files in committed folders, in shards and in packs that nothing names: who reads `FOLDER/*.parquet` reads them."""
        places = [*self.manifests, "packs", "collected"]
        for path in sorted(self.sizes.keys() - self.named):
            if path.startswith(tuple(f"{each}/" for each in places)):
                yield Finding(path, "is named by no manifest", "", Remedy.STRAY)


def _listed(run: Path) -> Iterator[tuple[str, int]]:
    """(path below the run, bytes) of every file, in order; none of the work folder's, or of those that begin with a dot."""
    paths = ((path.relative_to(run).as_posix(), path.stat().st_size) for path in store_of(run).files())
    yield from sorted((path, size) for path, size in paths if not path.startswith(("_work/", ".")))
