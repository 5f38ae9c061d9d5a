"""A folder's manifest, and the comparison of the folder's files with it.

The manifest, written last, names the folder's parts with rows, bytes and SHA-256, and carries its own. Sizes
are quick to compare, and every run does; readers of a part compare its SHA-256. A part is a file, or a shard:
a folder, whose `shard.json` lists its files in the same way. Fields that grow with the parts, once there are
thousands, are in Parquet files beside the manifest, which names them; their names do not end in .parquet, so
that nobody takes them for parts.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from answermill.files.atomic_files import (
    ListedFile,
    WrongShape,
    change_of,
    changes,
    parse_json,
    read_json,
    replacing,
    sha256,
)
from answermill.files.sealed_json import parse_sealed, write_sealed
from answermill.files.store import Changed, fetch, fetch_tree, store_of
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.manifests.arrow_columns import Named, Parts
from answermill.pipelines.runs.manifests.part import Part as Part
from answermill.pipelines.runs.spec import UNKNOWN, Maker

FORMAT = 5
MANIFEST = "_manifest.json"
SHARD_FILE = "shard.json"
CODED, QUANTIZER = "dense", "quantizer.faiss"
IN_JSON = 4_096
"""Most rows of a table that the manifest itself holds; if one has more, all are files beside it."""
TABLE = re.compile(r"_manifest-[a-z]+-[0-9a-f]{8}")
"""Names of these files."""
_GROWING = ("parts", "inputs", "digests", "units")
"""The fields that grow with the parts."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of `_manifest.json`. `fingerprint` stands for all that decided the folder's rows; see
    `runs/step.py`."""

    maker: Maker
    record: str
    schema: str
    fingerprint: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    version: str
    rows: int
    counts: Mapping[str, Any]
    """Counts of its step, in the form of `Counts.to_json`."""
    parts: Sequence[Part]
    revision: int = 1
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the input files that workers have read, by name."""
    format: int = FORMAT
    folder: str = ""
    """Its path below the run folder."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit number → its counts as JSON, so that a unit whose part is lost can be done again alone; empty if
    it cannot."""
    beside: tuple[Part, ...] = ()
    """Files of the run folder that were written with this folder, e.g. answers.jsonl."""
    tables: Mapping[str, Part] = field(default_factory=dict, compare=False)
    """Field → the file beside the manifest that has the field's rows, if there are thousands of parts."""
    environment: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The machine of the command that committed the folder, and the versions of its libraries; decides
    nothing."""

    @property
    def step(self) -> str:
        """The step, or command, that wrote the folder."""
        return self.maker.step

    def write(self, folder: Path) -> frozenset[str]:
        """Commit the folder; return the names of the tables beside its manifest.

        Raises JobError (73) if another manifest was written first.
        """
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {"maker": asdict(self.maker), "beside": [asdict(part) for part in self.beside], "parts": []}
        if max(len(getattr(self, name)) for name in _GROWING) > IN_JSON:
            values |= {name: {} for name in _GROWING if name != "parts"}
            values["tables"] = {
                name: asdict(_write_table(folder, name, getattr(self, name))) for name in _GROWING
            }
        else:
            values["parts"] = [asdict(part) for part in self.parts]
            values |= {name: dict(values[name]) for name in ("inputs", "digests", "units")}

        if write_sealed(folder / MANIFEST, values, replace=False):
            return frozenset(table["file"] for table in values["tables"].values())

        standing = read_manifest(folder)
        if standing is None or standing != self:
            raise JobError(
                f"{folder}: another job has just written this folder; give this one another --out",
                OUTPUT_EXISTS,
            )

        return frozenset(table.file for table in standing.tables.values())

    def run_of(self, folder: Path) -> Path:
        """The run folder that holds `folder`, which has this manifest."""
        return folder.parents[max(0, len(PurePath(self.folder).parts) - 1)]

    def damage(self, folder: Path, checksums: bool = False) -> Iterator[str]:
        """Damage of `folder`, whose manifest this is: a clause for each part or file beside it, 'PATH is
        missing'.

        Compares sizes and, with `checksums`, every byte.
        """
        for place, part in self._placed_parts(folder):
            if (wrong := damage_of(place, part, checksums)) is not None:
                yield wrong

    def remove_changed(self, folder: Path) -> Iterator[str]:
        """Remove each part and file beside it whose bytes are not those that were written; yield its damage.

        For a shard, its shard.json is removed. The step makes missing files again, a single part where units
        stand alone.
        """
        for place, part in self._placed_parts(folder):
            if (wrong := damage_of(place, part, checksums=True)) is not None:
                path = place / part.file
                (path / SHARD_FILE if path.is_dir() else path).unlink(missing_ok=True)
                yield wrong

    def _placed_parts(self, folder: Path) -> Iterator[tuple[Path, Part]]:
        """Its parts and the files beside it, each with the folder in which it is."""
        yield from ((folder, part) for part in self.parts)
        yield from ((self.run_of(folder), part) for part in self.beside)


@dataclass(frozen=True, slots=True)
class _Format:
    format: object


@dataclass(frozen=True, slots=True)
class _Listing:
    files: dict[str, ListedFile]


@dataclass(frozen=True, slots=True)
class _Coded:
    coded: dict[str, str] | None = None


def read_manifest(folder: Path, maker: Maker = UNKNOWN, run: Path | None = None) -> Manifest | None:
    """The manifest of a folder; None if it has none, so that the folder counts as not written.

    Raises JobError (65), with its `fault`, if it is not one that this version wrote; its advice names the
    command of `maker`, for the run folder `run`, which is the folder's own if not given.
    """
    path = folder / MANIFEST
    advice = maker.again(run or folder.parent)
    try:
        content = path.read_bytes()
        found_format = parse_json(path, content, _Format).format
        if found_format != FORMAT:
            fault = f"format {found_format!r}, this version reads {FORMAT}"
            raise JobError(f"{path}: {fault}; {advice}", BAD_DATA, fault)
        manifest = parse_sealed(path, content, Manifest)
    except FileNotFoundError:
        return None
    except WrongShape as e:
        raise JobError(f"not a manifest: {e}; {advice}", BAD_DATA, e.fault) from None

    for table in manifest.tables.values():
        if (damage := damage_of(folder, table)) is not None:
            raise JobError(f"{damage}; {advice}", BAD_DATA, damage)

    stored: dict[str, Any] = {"parts": Parts.of(manifest.parts)}
    for field_name, table in manifest.tables.items():
        read_rows = partial(_read_table, folder, table, advice)
        stored[field_name] = Parts(read_rows) if field_name == "parts" else Named(read_rows)

    return replace(manifest, **stored)


def _write_table(folder: Path, name: str, value: Any) -> Part:
    """Write a field of a manifest as a file beside it, whose name has its content's hash."""
    rows = (
        value if isinstance(value, Parts | Named) else Parts.of(value) if name == "parts" else Named.of(value)
    )
    table = rows.table
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"_manifest-{name}-{digest[:8]}"
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return Part(path.name, len(table), len(content), digest)


def _read_table(folder: Path, table: Part, advice: str) -> pa.Table:
    """The rows of a table beside a manifest. Raises JobError (65) if the file is not as it was written."""
    try:
        path = fetch(folder / table.file, table.sha256)
    except (FileNotFoundError, Changed) as e:
        raise JobError(f"{e}; {advice}", BAD_DATA) from None
    if (wrong := damage_of(path.parent, table, checksums=True)) is not None:
        raise JobError(f"{wrong}; {advice}", BAD_DATA)
    return pq.ParquetFile(path).read()


def damage_of(folder: Path, part: Part, checksums: bool = False) -> str | None:
    """Damage of a part, e.g. 'PATH is missing'; None if there is none.

    Compares sizes and, with `checksums`, every byte. The bytes of a shard.json are always compared.
    """
    path = folder / part.file
    change = change_of(path, ListedFile(part.bytes, part.sha256), checksums)
    if change is None or not path.is_dir():
        return change

    listing = path / SHARD_FILE
    if not listing.is_file():
        return f"{listing} is missing"
    if sha256(listing) != part.sha256:
        return f"{listing} was changed since it was written (SHA-256)"
    return next(changes(path, read_json(listing, _Listing).files, checksums), None)


def check_part(folder: Path, part: Part) -> Path:
    """The file of a part on this machine, compared with its checksum; from a store, when it is copied here.

    Raises JobError (65), with what to type, if it is not as it was written."""
    wrong = None
    if not store_of(folder).is_local:
        try:
            return fetch(folder / part.file, part.sha256)
        except FileNotFoundError:
            wrong = f"{folder / part.file} is missing"
        except Changed as e:
            wrong = str(e)

    wrong = wrong or damage_of(folder, part, checksums=True)
    if wrong is not None:
        manifest = read_manifest(folder)
        maker, run = (manifest.maker, manifest.run_of(folder)) if manifest else (UNKNOWN, folder)
        is_noticed = damage_of(folder, part) is not None  # by every run, which then makes it again unasked
        raise JobError(f"{wrong}; {maker.again(run, option='' if is_noticed else 'verify')}", BAD_DATA)

    return folder / part.file


def checked_once(folder: Path, part: Part) -> Path:
    """The file of a part, checked as by `check_part`, but once in a process, unless its size or time
    changes."""
    path = folder / part.file
    if not store_of(path).is_local or not path.is_file():
        return check_part(folder, part)
    stat = path.stat()
    return _check(folder, part, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4_096)
def _check(folder: Path, part: Part, size: int, time: int) -> Path:
    return check_part(folder, part)


def fetch_shard(folder: Path, digest: str, files: Callable[[str], object] = bool) -> Path:
    """A shard's folder on this machine; from a store, a copy of the files whose names `files` selects.
    `digest`: SHA-256 of its shard.json. Each file is compared with its checksum when it is copied here."""
    if store_of(folder).is_local:
        return folder
    listing = shard_listing(folder, digest)
    copy = fetch_tree(
        folder, {SHARD_FILE: digest} | {name: file.sha256 for name, file in listing.items() if files(name)}
    )

    # A shard of codes is searched with the quantizer beside it, which all shards share.
    coded = read_json(copy / SHARD_FILE, _Coded).coded
    if coded is not None and any(files(name) for name in listing if name.startswith(f"{CODED}/")):
        quantizer = fetch(folder.parent / QUANTIZER, coded["quantizer"])
        with replacing(copy.parent / QUANTIZER) as temporary:
            shutil.copyfile(quantizer, temporary)
    return copy


def shard_listing(folder: Path, digest: str) -> dict[str, ListedFile]:
    """The files of a shard without its shard.json, whose SHA-256 is `digest`. Raises WrongShape if it is no
    listing."""
    return read_json(fetch(folder / SHARD_FILE, digest), _Listing).files
