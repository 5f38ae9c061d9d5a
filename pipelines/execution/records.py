"""Parquet folders that exist when their manifest does.

A folder of records is `part-*.parquet` and `_manifest.json`. A part is written under a temporary name, synced, and
renamed to a name that bears its content's hash; the manifest, written last, names the parts with rows and SHA-256.
Readers open what a manifest names and nothing else, and check each part before they read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, JobError
from schemas.record import Record

R = TypeVar("R", bound=Record)
FORMAT = 1
MANIFEST = "_manifest.json"
ROWS_PER_GROUP = 2_048


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a folder: its name in the folder, rows, bytes and SHA-256."""

    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `_manifest.json` holds. `fingerprint` stands for all that decided the content: settings, inputs, schemas."""

    step: str
    record: str
    schema: str
    fingerprint: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    version: str
    rows: int
    counts: Mapping[str, int]
    parts: tuple[Part, ...]
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Commit the folder. Raises JobError (73) where another manifest came first."""
        created = write_text(folder / MANIFEST, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", replace=False)
        if not created and read_manifest(folder) != self:
            raise JobError(f"{folder}: another job has just written this folder; give this one another --out", OUTPUT_EXISTS)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none, so that the folder counts as not written.

    Raises JobError (65) where it is not readable or of another format.
    """
    path = folder / MANIFEST
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as e:
        raise JobError(f"{path}: not a manifest ({e}); delete {folder} and run its step again", BAD_DATA) from e
    if values.get("format") != FORMAT:
        raise JobError(
            f"{path}: format {values.get('format')!r}, this version reads {FORMAT}; run the step again in another --out",
            BAD_DATA,
        )
    return Manifest(**{**values, "parts": tuple(Part(**part) for part in values["parts"])})


class PartWriter(Generic[R]):
    """Writes one part, row group by row group: memory does not grow with the part. Use as a context manager.

    After the block `part` says what was written; an exception inside leaves nothing behind.
    """

    part: Part

    def __init__(self, folder: Path, record: type[R], unit: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._record, self._unit = folder, record, unit
        self._temporary = folder / f".part-{unit:05d}.{uuid.uuid4().hex}.tmp"
        self._waiting: list[R] = []
        self._held = record.schema().empty_table()
        self._rows = 0
        self._writer = pq.ParquetWriter(self._temporary, record.schema(), compression="zstd", write_page_checksum=True)

    def write(self, rows: Sequence[R]) -> None:
        self._waiting.extend(rows)
        while len(self._waiting) >= ROWS_PER_GROUP:
            self._flush(self._waiting[:ROWS_PER_GROUP])
            del self._waiting[:ROWS_PER_GROUP]

    def write_table(self, rows: pa.Table) -> None:
        """As `write`, of rows in a table of the record's schema; a part takes either."""
        self._held = pa.concat_tables([self._held, rows])
        whole = len(self._held) // ROWS_PER_GROUP * ROWS_PER_GROUP
        for first in range(0, whole, ROWS_PER_GROUP):
            self._flush_table(self._held.slice(first, ROWS_PER_GROUP))
        self._held = self._held.slice(whole).combine_chunks()

    def _flush(self, rows: Sequence[R]) -> None:
        self._flush_table(self._record.table(rows))

    def _flush_table(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.combine_chunks())
        self._rows += len(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None and self._waiting:
                self._flush(self._waiting)
            if error is None and len(self._held):
                self._flush_table(self._held)
            self._writer.close()
            if error is None:
                digest = sha256(self._temporary)
                name = f"part-{self._unit:05d}-{digest[:8]}.parquet"
                sync(self._temporary)
                size = self._temporary.stat().st_size
                self._temporary.replace(self._folder / name)
                self.part = Part(name, self._rows, size, digest)
        finally:
            self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(file: Path, record: type[R]) -> Iterator[Callable[[Sequence[R]], None]]:
    """A function that takes rows; they stand in the file, under its name, when the block has ended well."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.parent / f".{file.name}.{uuid.uuid4().hex}.tmp"
    waiting: list[R] = []
    try:
        with pq.ParquetWriter(temporary, record.schema(), compression="zstd", write_page_checksum=True) as writer:

            def write(rows: Sequence[R]) -> None:
                waiting.extend(rows)
                while len(waiting) >= ROWS_PER_GROUP:
                    writer.write_table(record.table(waiting[:ROWS_PER_GROUP]))
                    del waiting[:ROWS_PER_GROUP]

            yield write
            if waiting:
                writer.write_table(record.table(waiting))
        sync(temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class Folder(Generic[R]):
    """A committed folder of records, for reading."""

    path: Path
    record: type[R]
    manifest: Manifest

    @classmethod
    def open(cls, path: Path, record: type[R], made_by: str) -> Folder[R]:
        """Raises JobError: 66 where there is no manifest (`made_by` is the step to run), 65 where it holds something else."""
        manifest = read_manifest(path)
        if manifest is None:
            raise JobError(f"{path} is not there or not complete; run `answermill {made_by}` first", INPUT_MISSING)
        if manifest.record != record.__name__ or manifest.schema != record.fingerprint():
            raise JobError(
                f"{path} holds {manifest.record} {manifest.schema}, this version reads {record.__name__} "
                f"{record.fingerprint()}; run `answermill {made_by}` again in another --out",
                BAD_DATA,
            )
        return cls(path, record, manifest)

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.manifest.parts

    def read(self) -> Iterator[R]:
        """All rows, part by part."""
        for part in self.parts:
            yield from read_part(self.path, part, self.record)

    def where(self, column: str, wanted: Collection[str]) -> Iterator[R]:
        """The rows whose `column` is one of these; of the others no record is made."""
        values = pa.array(sorted(wanted), pa.string())
        for part in self.parts:
            for batch in read_batches(self.path, part):
                yield from self.record.rows(batch.filter(pc.is_in(batch[column], value_set=values)))

    def digest(self) -> str:
        """Stands for the folder's content; what later steps put into their fingerprints."""
        return hashlib.sha256("".join(part.sha256 for part in self.parts).encode()).hexdigest()[:32]


def read_batches(folder: Path, part: Part, columns: Sequence[str] | None = None, rows: int = 512) -> Iterator[pa.RecordBatch]:
    """The batches of a part that a manifest names, after its checksum was found right; raises JobError (65) otherwise."""
    path = folder / part.file
    _check(path, part)
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(batch_size=rows, columns=list(columns) if columns else None)


def read_part(folder: Path, part: Part, record: type[R]) -> Iterator[R]:
    """The rows of one part."""
    for batch in read_batches(folder, part):
        yield from record.rows(batch)


def read_rows(folder: Path, part: Part, record: type[R], start: int, stop: int) -> Iterator[R]:
    """The rows [start, stop) of one part, counted from 0. Row groups without any of them are not read.

    The part's checksum is compared once in a process, however many ranges are read. Raises JobError (65) if it differs.
    """
    path = folder / part.file
    if path not in _sound or _sound[path] != part.sha256:
        _check(path, part)
        _sound[path] = part.sha256
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first < stop and first + rows > start:
                table = file.read_row_group(group, use_threads=False)
                inside = table.slice(max(start - first, 0), min(stop, first + rows) - max(start, first))
                for batch in inside.to_batches(max_chunksize=512):
                    yield from record.rows(batch)
            first += rows


_sound: dict[Path, str] = {}  # a part whose checksum this process has compared → that checksum


def _check(path: Path, part: Part) -> None:
    """Raises JobError (65) unless the file is there and has the part's checksum."""
    try:
        digest = sha256(path)
    except FileNotFoundError:
        raise JobError(
            f"{path} is named by its manifest but missing; delete {path.parent} and run its step again", BAD_DATA
        ) from None
    if digest != part.sha256:
        raise JobError(
            f"{path} was changed since it was written (SHA-256); delete {path.parent} and run its step again", BAD_DATA
        )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Force a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str, replace: bool = True) -> bool:
    """Write a whole file or nothing. With `replace` False an existing file stays and the answer is False."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    publish: Callable[[Path, Path], None] = os.replace if replace else os.link
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def whole_text(file: Path) -> Iterator[Callable[[str], object]]:
    """A function that takes text; it stands in the file, under its name, when the block has ended well."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.parent / f".{file.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as opened:
            yield opened.write
        sync(temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(folder: Path, named: Sequence[str]) -> None:
    """Remove what an interrupted run left in a folder: temporary files, and parts that nothing names."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.startswith(".") and path.name.endswith(".tmp"):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            elif path.name.startswith("part-") and path.name not in named:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
