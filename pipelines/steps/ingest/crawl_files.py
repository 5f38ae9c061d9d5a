"""The input of ingest as its units of work: files, parts of large files, and records that are fetched alone
(fetched_records.py)."""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.files.atomic_files import replacing
from answermill.files.remote import as_path, name_from
from answermill.files.store import fetch, store_of
from answermill.indexing.crawl.input_formats import cut, read_pages, suffix_of
from answermill.indexing.crawl.raw_page import WHOLE, Range, RawPage
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.specs.ingest import IngestCounts
from answermill.pipelines.specs.rerank import ANSWERS_FILE
from answermill.pipelines.steps.ingest.fetched_records import RecordUnit
from answermill.pipelines.steps.ingest.path_lists import is_list, listed, looked_up
from answermill.schemas.corpus import Rejected

KINDS = (".warc", ".wet", ".jsonl", ".ndjson", ".parquet", ".tsv")
"""Suffixes of the files that are read in a folder, each plain or with .gz; a .tsv only if it is a table of
pages."""

UNIT_BYTES = 134_217_728
"""Size of a file, as it is on the disk, beyond which it becomes several units. One in a store does not: each
worker would fetch all of it."""
_MOST_UNITS = 64
"""Units of one file. One of compressed lines inflates all before it, which takes a hundredth of the time of
parsing."""
_FILES = "files.parquet"
_COLUMNS = pa.schema(
    [
        ("path", pa.binary()),
        ("name", pa.string()),
        ("said", pa.string()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("group", pa.int64()),
        ("size", pa.int64()),
    ]
)


class Input(Protocol):
    """One unit of work: the number-th input, whose digest and failure have this name."""

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes, as progress counts them."""

    @property
    def is_first(self) -> bool:
        """False for a later unit of a file."""

    def fetch(self) -> Path:
        """The file with its pages on this machine."""

    def pages(self, file: Path, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
        """The pages in the file that `fetch` has given. Looks at its first bytes, then reads as pages are
        consumed. Raises JobError (65) if its format is unknown."""

    def position(self, page: RawPage | Rejected) -> int | None:
        """Number of its bytes before the page; None if it is not known."""

    def rejects(self, reason: str, detail: str) -> Iterator[Rejected]:
        """Rejects in its place if it fails before its pages are read."""

    def counts(self) -> IngestCounts:
        """Numbers that are known before it is read."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file, or a part of one; its name is as records carry it (`written_name`)."""

    number: int
    path: Path
    name: str
    within: Range = WHOLE
    share: int | None = None
    """Bytes of a part, as progress counts them."""

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.share is None else self.share

    @property
    def is_first(self) -> bool:
        return self.within.start == 0

    def fetch(self) -> Path:
        return fetch(self.path)

    def pages(self, file: Path, skipped: Counter[str]) -> Iterator[RawPage | Rejected]:
        try:
            return read_pages(file, self.name, skipped, self.within)
        except ValueError as e:
            raise JobError(f"ingest.input: {e}", BAD_DATA) from e

    def position(self, page: RawPage | Rejected) -> int | None:
        """Offsets count bytes of the file as it is on the disk; those in other gzip files than WARC count
        unpacked ones."""
        return page.source_offset - self.within.start if _has_offsets(self.path.name) else None

    def rejects(self, reason: str, detail: str) -> Iterator[Rejected]:
        yield Rejected(self.name, self.within.start, "", "", reason, detail)

    def counts(self) -> IngestCounts:
        return IngestCounts()


@cache
def _has_offsets(name: str) -> bool:
    """True if the offsets of a file's pages count its own bytes. It is asked for each page."""
    suffixes = set(Path(name).suffixes)
    return ".gz" not in suffixes or bool({".warc", ".wet"} & suffixes)


class InputFiles(NamedTuple):
    """The input of a job, from one listing of its folders."""

    files: Sequence[InputFile]
    """Files in the order of their names."""
    unread: Mapping[str, int]
    """Suffix, or 'no suffix' → number of files in the input folders that are not read."""
    tables: Set[Path]
    """The files whose first bytes were read to know that they are tables of pages."""


def find_files(job: Job, settings: Ingest) -> InputFiles:
    """List the input. Raises JobError (66) if a pattern finds nothing."""
    tables = set[Path]()

    def is_read(path: Path) -> bool:
        if suffix_of(path) != ".tsv":
            return suffix_of(path) in KINDS
        is_table = _is_table(path)
        if is_table:
            tables.add(path.resolve())
        return is_table

    paths, passed_over = files_of(job, settings, settings.input, "ingest.input", is_read)
    named_paths = sorted((written_name(path, job.folder), path) for path in paths)
    files = [InputFile(number, path, name) for number, (name, path) in enumerate(named_paths)]

    unread = {path.resolve() for path in passed_over}.difference(paths)
    suffixes = Counter(_escaped(os.fsencode(path.suffix.lower())) or "no suffix" for path in unread)
    return InputFiles(files, dict(sorted(suffixes.items())), tables)


def units_of(files: Sequence[InputFile]) -> list[InputFile]:
    """The files as units of work: those that are larger than UNIT_BYTES as several, in their order."""
    units = list[InputFile]()
    for file in files:
        parts = -(-file.size // UNIT_BYTES) if store_of(file.path).is_local else 1
        ranges = cut(file.path, min(parts, _MOST_UNITS))
        share = None if len(ranges) == 1 else file.size // len(ranges)
        units += [
            replace(file, number=number, within=within, share=share)
            for number, within in enumerate(ranges, len(units))
        ]
    return units


class ListedFiles(NamedTuple):
    """Files that a key of the job names."""

    files: list[Path]
    passed_over: list[Path]
    """The other files of the folders that it names."""


def files_of(
    job: Job, settings: Ingest, patterns: Sequence[str], key: str, is_read: Callable[[Path], bool]
) -> ListedFiles:
    """The files that the job's key names, each once: paths, globs, lists of paths, and those of folders that
    `is_read` accepts.

    Raises JobError (66) if a pattern finds nothing."""
    paths: dict[Path, None] = {}
    passed_over: list[Path] = []
    for pattern in dict.fromkeys(patterns):
        matches = _named(job, pattern, key, is_read)
        passed_over += matches.passed_over
        for path in matches.files:
            files = listed(job, settings, path, key) if is_list(path) else [path]
            if is_list(path) and settings.paths_range and key == "ingest.input":
                files = files[slice(*settings.paths_range)]
            if not files:
                raise JobError(
                    f"{key}: {path}: no path in ingest.paths_range = {settings.paths_range}", INPUT_MISSING
                )
            paths.update(dict.fromkeys(file.resolve() for file in files))

    return ListedFiles(looked_up(list(paths), key), passed_over)


def _named(job: Job, pattern: str, key: str, is_read: Callable[[Path], bool]) -> ListedFiles:
    """The files that a pattern names, lists of paths as they are."""
    path = job.path(pattern)
    if not store_of(path).is_listed:
        return ListedFiles([path], [])  # looked up later, with all others

    if path.is_dir():
        listed_files = ListedFiles([], [])
        below = [file for file in path.rglob("*") if file.is_file()]
        written, others = _written_by_runs(path, below), _named_elsewhere(job)
        for file in below:
            is_output = bool(written) and not written.isdisjoint((file, *file.parents))
            is_input = not is_output and file not in others and is_read(file)
            (listed_files.files if is_input else listed_files.passed_over).append(file)
        if not listed_files.files:
            kinds = ", ".join(KINDS if key == "ingest.input" else (".parquet",))
            raise JobError(f"{key}: no {kinds} file in the folder {path}", INPUT_MISSING)
        return listed_files

    files = [path] if path.is_file() else _matching(job, pattern, path)
    if not files:
        where = "" if Path(pattern).is_absolute() else f" in {job.folder}"
        raise JobError(
            f"{key}: {pattern!r} is no file, folder or glob that finds files{where}", INPUT_MISSING
        )

    return ListedFiles(files, [])


def _written_by_runs(folder: Path, below: Sequence[Path]) -> set[Path]:
    """What runs have written among the files below a folder of pages: run folders in it and, if it is a run
    folder itself, that run's own folders and answers."""
    outputs = {file.parent for file in below if file.name == MANIFEST}
    at_work = (file for file in below if WORK in file.parts)
    outputs |= {parent for file in at_work for parent in file.parents if parent.name == WORK}
    runs = {output.parent for output in outputs}
    answers = {folder / ANSWERS_FILE} if folder in runs else set()
    return (outputs | runs | answers) - {folder, *folder.parents}


def _named_elsewhere(job: Job) -> set[Path]:
    """The files that the job names as its questions and labels, which are no pages."""
    keys = (job.retrieve and job.retrieve.questions, job.propagate and job.propagate.labels)
    return {job.path(name) for name in keys if name}


def _matching(job: Job, pattern: str, path: Path) -> list[Path]:
    """The files that a pattern matches; `path`: the pattern as this process reaches it."""
    store = store_of(path)
    if not store.is_local or Path(pattern).is_absolute():
        return [p for p in store.matches() if p.is_file()]

    for folder, name in ((job.folder, pattern), (path.parent, path.name)):
        with suppress(ValueError):  # a part such as '**x' is no pattern before Python 3.13
            if files := [p for p in folder.glob(name) if p.is_file()]:
                return files
    return []


class FileList(Sequence[Input]):
    """The input by number, as a worker reads it from a file in the step's work folder."""

    def __init__(self, work: Path) -> None:
        self._table = pq.read_table(fetch(work / _FILES)).combine_chunks()

    @staticmethod
    def write(inputs: Sequence[InputFile | RecordUnit], work: Path) -> None:
        """Write the file for the workers: for an input file its web server's answer, for a unit of records
        its row group and size."""
        columns = {
            "path": [
                os.fsencode(str(unit.path if isinstance(unit, InputFile) else unit.table)) for unit in inputs
            ],
            "name": [unit.name for unit in inputs],
            "said": [_stated(unit.path) if isinstance(unit, InputFile) else None for unit in inputs],
            "start": [unit.within.start if isinstance(unit, InputFile) else None for unit in inputs],
            "stop": [unit.within.stop if isinstance(unit, InputFile) else None for unit in inputs],
            "group": [unit.group if isinstance(unit, RecordUnit) else None for unit in inputs],
            "size": [unit.size if isinstance(unit, RecordUnit) else unit.share for unit in inputs],
        }
        with replacing(work / _FILES) as temporary:
            pq.write_table(pa.table(columns, schema=_COLUMNS), temporary, compression="zstd")

    @staticmethod
    def differs(units: Sequence[InputFile], work: Path) -> bool:
        """True if the work folder has a list whose files are cut into other units, as another version may
        have cut them."""
        try:
            table = pq.read_table(fetch(work / _FILES), columns=["name", "start", "stop"])
            rows = table.filter(pc.is_valid(table["start"])).to_pylist()
        except FileNotFoundError:
            return False
        except KeyError:  # of a version that cut none
            return True
        return [tuple(row.values()) for row in rows] != [(unit.name, *unit.within) for unit in units]

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, number: int) -> Input: ...

    @overload
    def __getitem__(self, number: slice) -> list[Input]: ...

    def __getitem__(self, number: int | slice) -> Input | list[Input]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        row = (self._table[column][number].as_py() for column in _COLUMNS.names)
        path_bytes, name, stated, start, stop, group, size = row
        path = as_path(os.fsdecode(path_bytes))
        if group is not None:
            return RecordUnit(number, name, path, group, size)
        if stated is not None:
            store_of(path).remember(json.loads(stated))
        return InputFile(number, path, name, Range(start, stop), size)


def _stated(path: Path) -> str | None:
    """A web server's answer about a file, as JSON; None for a store, which a worker asks again."""
    stated = store_of(path).stated()
    return None if stated is None else json.dumps(stated)


def written_name(path: Path, folder: Path) -> str:
    r"""The path from the job file's folder, as records and manifests write it: UTF-8 and printable.

    A byte that is not UTF-8 is written as \xff, an invisible character as \u200b, a backslash twice, so that
    every file has one name and every name is one file's.
    """
    return _escaped(os.fsencode(name_from(path, folder)))


def _escaped(name: bytes) -> str:
    return "".join(_escapes(name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")))


def _escapes(name: str) -> Iterator[str]:
    for character in name:
        is_invisible = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
        yield f"\\u{ord(character):04x}" if is_invisible else character


def _is_table(path: Path) -> bool:
    """True if a file is a table of pages, by its first bytes."""
    try:
        read_pages(fetch(path), path.name, Counter())  # looks at the first bytes only
    except ValueError:
        return False
    return True
