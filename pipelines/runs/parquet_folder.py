"""Parquet folders that exist when their manifest does.

A folder of records is `part-*.parquet` and `_manifest.json`. A part is written under a temporary name and
then gets, whole, a name that contains its content's hash; the manifest, written last, names the parts with
rows and SHA-256. Readers open what a manifest names and nothing else, and check each part before they read
it.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing, sha256
from answermill.files.store import creating, is_temporary, put, remove_tree
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, IO, JobError
from answermill.pipelines.runs.manifests.manifest import TABLE, Manifest, checked_once, read_manifest
from answermill.pipelines.runs.manifests.manifest import Part as Part
from answermill.pipelines.runs.spec import FolderSpec
from answermill.schemas.record import Record

R = TypeVar("R", bound=Record)
ROWS_PER_GROUP = 2_048
_PART = re.compile(r"part-|\d+-of-\d+")


class _RowGroups(Generic[R]):
    """A Parquet file that grows by groups of `rows_per_group` rows, so that memory does not grow with the
    file.

    Records wait in a list until they fill a group, tables in a table; a file is written from one of the two.
    """

    def __init__(self, file: Path, record: type[R], rows_per_group: int = ROWS_PER_GROUP) -> None:
        self._record, self._rows_per_group = record, rows_per_group
        self._waiting: list[R] = []
        self._waiting_table = record.schema().empty_table()

        # Opened here, since Arrow's writer leaves a file open that it cannot write.
        self._file = pa.OSFile(str(file), "wb")
        try:
            self._writer = pq.ParquetWriter(
                self._file,
                record.schema(),
                compression="zstd",
                use_dictionary=record.dictionary_columns(),
                write_page_checksum=True,
            )
        except BaseException:
            self._file.close()
            file.unlink()
            raise

        self.rows = 0

    def write(self, rows: Sequence[R]) -> None:
        self._waiting.extend(rows)
        while len(self._waiting) >= self._rows_per_group:
            self._write_group(self._record.table(self._waiting[: self._rows_per_group]))
            del self._waiting[: self._rows_per_group]

    def write_table(self, rows: pa.Table) -> None:
        table = pa.concat_tables([self._waiting_table, rows])
        whole = len(table) // self._rows_per_group * self._rows_per_group
        for first in range(0, whole, self._rows_per_group):
            self._write_group(table.slice(first, self._rows_per_group))
        self._waiting_table = table.slice(whole).combine_chunks()

    @property
    def waiting(self) -> int:
        """Rows that are in no group yet."""
        return len(self._waiting) + len(self._waiting_table)

    def _write_group(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.combine_chunks())
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the last, smaller group, and close the file even if that fails."""
        try:
            if self._waiting:
                self._write_group(self._record.table(self._waiting))
            if len(self._waiting_table):
                self._write_group(self._waiting_table)
        finally:
            self.close()

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()


class PartWriter(Generic[R]):
    """Writes a unit's parts of a folder, most often one, row group by row group. Use as a context manager.

    After the block `parts` lists what was written. An exception inside leaves no temporary file behind; no
    report names the parts that were finished before it. `rows_per_group`: rows that are read and unpacked to
    get one of them.
    """

    def __init__(
        self, folder: Path, record: type[R], unit: int, rows_per_group: int = ROWS_PER_GROUP
    ) -> None:
        self._folder, self._record, self._unit, self._rows_per_group = folder, record, unit, rows_per_group
        self._parts: list[Part] = []
        self._begin()

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self._parts)

    @property
    def part(self) -> Part:
        """The only part."""
        (part,) = self._parts
        return part

    @property
    def rows(self) -> int:
        """Rows of the part that is being written."""
        return self._groups.rows + self._groups.waiting

    def write(self, rows: Sequence[R]) -> None:
        """Append records."""
        self._groups.write(rows)

    def write_table(self, rows: pa.Table) -> None:
        """Append the rows of a table of the record's schema. A part is written by `write` or by this, not by
        both."""
        self._groups.write_table(rows)

    def begin_part(self) -> None:
        """End the part; further rows are written to another."""
        self._end(finish=True)
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(finish=error is None)

    def _begin(self) -> None:
        self._temporaries = contextlib.ExitStack()
        self._temporary = self._temporaries.enter_context(creating(self._folder / f"part-{self._unit:05d}"))
        self._groups = _RowGroups(self._temporary, self._record, self._rows_per_group)

    def _end(self, finish: bool) -> None:
        with self._temporaries:
            if not finish:
                self._groups.close()
                return
            self._groups.finish()
            digest = sha256(self._temporary)
            # The parts of a unit follow each other in a listing of the folder.
            number = f".{len(self._parts):04d}" if self._parts else ""
            name = f"part-{self._unit:05d}{number}-{digest[:8]}.parquet"
            size = self._temporary.stat().st_size
            put(self._temporary, self._folder / name)
            self._parts.append(Part(name, self._groups.rows, size, digest))


@contextlib.contextmanager
def whole_file(file: Path, record: type[R]) -> Iterator[Callable[[Sequence[R]], None]]:
    """A function that appends rows to one Parquet file; the file gets its name when the block ends well."""
    with replacing(file) as temporary:
        groups = _RowGroups(temporary, record)
        try:
            yield groups.write
            groups.finish()
        finally:
            groups.close()


@dataclass(frozen=True)
class Folder(Generic[R]):
    """A committed folder of records, for reading.

    A worker is sent its place and digest, and reads the manifest itself.
    """

    path: Path
    spec: FolderSpec[R]
    sent: str | None = None
    """The digest that a worker must see there."""

    @classmethod
    def open(cls, path: Path, spec: FolderSpec[R]) -> Folder[R]:
        """The folder at a path. Raises JobError: 66 if there is no manifest, 65 if it holds something else
        than `spec` says."""
        folder = cls(path, spec)
        _ = folder.manifest
        return folder

    @classmethod
    def of(cls, path: Path, spec: FolderSpec[R], manifest: Manifest | None) -> Folder[R]:
        """The folder at a path, with the manifest that was read there before. Raises JobError as `open`."""
        folder = cls(path, spec)
        vars(folder)["manifest"] = folder._checked(manifest)
        return folder

    @property
    def run(self) -> Path:
        """The run folder that it belongs to."""
        return self.path.parents[self.spec.name.count("/")]

    @property
    def record(self) -> type[R]:
        return self.spec.record

    @cached_property
    def manifest(self) -> Manifest:
        """Its manifest, read once. Raises JobError as `open`, and 74 if a worker sees another folder than the
        command."""
        return self._checked(read_manifest(self.path, self.spec.maker, self.run))

    def _checked(self, manifest: Manifest | None) -> Manifest:
        path, record, maker = self.path, self.record, self.spec.maker
        if manifest is None:
            raise JobError(
                f"{path} is not there or not complete; run {maker.first(self.run)} first", INPUT_MISSING
            )
        if manifest.record != record.__name__:
            raise JobError(
                f"{path} holds rows of {manifest.record}, not of {record.__name__}; give the folder "
                f"{self.spec.name} of a run",
                BAD_DATA,
            )
        if manifest.schema != record.fingerprint():
            raise JobError(
                f"{path} holds {manifest.record} {manifest.schema}, this version reads {record.__name__} "
                f"{record.fingerprint()}; {maker.again(manifest.run_of(path))}",
                BAD_DATA,
            )

        if self.sent not in (None, digest_of(manifest)):
            raise JobError(
                f"{platform.node()} sees another {path} than the command: do all workers see that folder?", IO
            )

        return manifest

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "spec": self.spec, "sent": self.digest()}

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def parts(self) -> Sequence[Part]:
        return self.manifest.parts

    def read(self) -> Iterator[R]:
        """All rows, part by part."""
        for part in self.parts:
            yield from read_part(self.path, part, self.record)

    def where(self, column: str, values: Collection[str]) -> Iterator[R]:
        """The rows whose `column` has one of these values; the other rows are not turned into records."""
        value_set = pa.array(sorted(values), pa.string())
        for part in self.parts:
            for batch in read_batches(self.path, part):
                yield from self.record.rows(batch.filter(pc.is_in(batch[column], value_set=value_set)))

    def digest(self) -> str:
        """32 hex digits that stand for the folder's content; later steps put them into their fingerprints."""
        return digest_of(self.manifest)


def digest_of(manifest: Manifest) -> str:
    """32 hex digits that stand for the content of the manifest's folder."""
    digest = hashlib.sha256()
    for part in manifest.parts:
        digest.update(part.sha256.encode())
    return digest.hexdigest()[:32]


def read_batches(
    folder: Path, part: Part, columns: Sequence[str] | None = None, rows: int = 512
) -> Iterator[pa.RecordBatch]:
    """The batches of a part that a manifest names. Raises JobError (65) as `checked_once`."""
    with pq.ParquetFile(checked_once(folder, part), page_checksum_verification=True) as file:
        yield from file.iter_batches(batch_size=rows, columns=list(columns) if columns else None)


def read_part(folder: Path, part: Part, record: type[R]) -> Iterator[R]:
    """The rows of one part."""
    for batch in read_batches(folder, part):
        yield from record.rows(batch)


def read_rows(folder: Path, part: Part, record: type[R], start: int, stop: int) -> Iterator[R]:
    """The rows [start, stop) of one part, from 0; only row groups that hold some are read. Raises as
    `read_batches`."""
    with pq.ParquetFile(checked_once(folder, part), page_checksum_verification=True) as file:
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first < stop and first + rows > start:
                table = file.read_row_group(group, use_threads=False)
                inside = table.slice(max(start - first, 0), min(stop, first + rows) - max(start, first))
                for batch in inside.to_batches(max_chunksize=512):
                    yield from record.rows(batch)
            first += rows


def sweep(folder: Path, named: Collection[str]) -> None:
    """Remove what an interrupted run left in a folder, which has no manifest: temporary files, tables of a
    manifest, and parts (shards too) that nothing names."""
    if folder.is_dir():
        for path in folder.iterdir():
            if is_temporary(path.name) or (is_written_by_a_unit(path.name) and path.name not in named):
                remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)


def is_written_by_a_unit(name: str) -> bool:
    """True if a file or folder of this name is a part, a shard or a manifest's table."""
    return (TABLE.fullmatch(name) or _PART.match(name)) is not None
