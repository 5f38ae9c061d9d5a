"""The input files of ingest, which are its units of work."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.parquet as pq

from indexing.crawl.input_formats import read_pages, suffix_of
from pipelines.config.job_file import Ingest, Job
from pipelines.errors import INPUT_MISSING, JobError
from schemas.atomic_files import replacing
from schemas.storage.remote import Remote, as_path, name_from
from schemas.storage.store import fetch

KINDS = (".warc", ".wet", ".jsonl", ".ndjson", ".parquet", ".tsv")
"""Suffixes of the files that are read of a folder, each plain or with .gz; a .tsv only if it is a table of pages."""

_FILES = "files.parquet"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One unit of work: the number-th input file, and its name as records carry it (`written_name`)."""

    number: int
    path: Path
    name: str


def find_files(job: Job, settings: Ingest) -> list[InputFile]:
    """The input files in the order of their names. Raises JobError (66) if a pattern finds nothing."""
    paths: set[Path] = set()
    for pattern in settings.input:
        path = job.path(pattern)
        if path.is_dir():
            files = [p for p in path.rglob("*") if p.is_file() and _is_read(p)]
            if not files:
                raise JobError(f"ingest.input: no {', '.join(KINDS)} file in the folder {path}", INPUT_MISSING)
        elif path.is_file():
            files = [path]
        else:
            files = _matching(job, pattern, path)
            if not files:
                raise JobError(
                    f"ingest.input: {pattern!r} is no file, folder or glob that finds files in {job.folder}", INPUT_MISSING
                )
        paths.update(p.resolve() for p in files)
    named = sorted((written_name(p, job.folder), p) for p in paths)
    return [InputFile(number, path, name) for number, (name, path) in enumerate(named)]


def _matching(job: Job, pattern: str, path: Path) -> list[Path]:
    """The files that a pattern matches; `path` is the pattern from where this process is."""
    if isinstance(path, Remote):
        return [p for p in path.with_parts(path.bucket).glob("/".join(path.parts[2:])) if p.is_file()]
    files = [p for p in job.folder.glob(pattern) if p.is_file()] if not path.is_absolute() or path != Path(pattern) else []
    return files or [p for p in path.parent.glob(path.name) if p.is_file()]


class FileList(Sequence[InputFile]):
    """The input files by number, as a worker knows them: from a file in the step's work folder."""

    def __init__(self, work: Path) -> None:
        self._table = pq.read_table(fetch(work / _FILES)).combine_chunks()

    @staticmethod
    def write(files: Sequence[InputFile], work: Path) -> None:
        """Write the file for the workers."""
        columns = {"path": [os.fsencode(str(file.path)) for file in files], "name": [file.name for file in files]}
        with replacing(work / _FILES) as temporary:
            pq.write_table(pa.table(columns), temporary, compression="zstd")

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, number: int) -> InputFile: ...

    @overload
    def __getitem__(self, number: slice) -> list[InputFile]: ...

    def __getitem__(self, number: int | slice) -> InputFile | list[InputFile]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        path, name = (self._table[column][number].as_py() for column in ("path", "name"))
        return InputFile(number, as_path(os.fsdecode(path)), name)


def unread_files(job: Job, settings: Ingest) -> Counter[str]:
    """Suffix, or 'no suffix' → number of files in the input folders that are not read."""
    read = {file.path for file in find_files(job, settings)}
    folders = {path for pattern in settings.input if (path := job.path(pattern)).is_dir()}
    unread = {path for folder in folders for p in folder.rglob("*") if p.is_file() and (path := p.resolve()) not in read}
    return Counter(_escaped(os.fsencode(path.suffix.lower())) or "no suffix" for path in unread)


def written_name(path: Path, folder: Path) -> str:
    r"""The path from the job file's folder, as records and manifests write it: UTF-8 and printable.

    A byte that is not UTF-8 is written as \xff, a character that nobody sees as \u200b, a backslash twice, so that every file
    has one name and every name is one file's.
    """
    return _escaped(os.fsencode(name_from(path, folder)))


def _escaped(name: bytes) -> str:
    return "".join(_escapes(name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")))


def _escapes(name: str) -> Iterator[str]:
    for character in name:
        unseen = unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
        yield f"\\u{ord(character):04x}" if unseen else character


def _is_read(path: Path) -> bool:
    """Whether a file of a folder is read."""
    suffix = suffix_of(path)
    if suffix != ".tsv":
        return suffix in KINDS
    try:
        read_pages(fetch(path), path.name, Counter())  # looks at the first bytes only
    except ValueError:
        return False
    return True
