"""Content of ingest's input files, known by size and SHA-256, so that a run that was copied with its input is
the same run.

The worker that parses a file digests it; the manifests have the digests. `inputs.json` in the run folder has
the size and date of each file, so that only a file with another date is read again, to be compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from answermill.files.atomic_files import WrongShape, sha256
from answermill.files.sealed_json import read_sealed, write_sealed
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.ingest import INGEST, INPUTS
from answermill.pipelines.steps.ingest.crawl_files import InputFile


@dataclass(frozen=True, slots=True)
class _Dates:
    """Content of INPUTS: file → [bytes, time of the last change in ns], as it was when it was known to have
    its digest."""

    files: dict[str, list[int]]


def write_dates(folder: Path, files: Sequence[InputFile]) -> None:
    """Write INPUTS into a folder, from what the files are now."""
    write_sealed(folder / INPUTS.path, {"files": {file.name: _date(file) for file in files}})


def changed(files: Sequence[InputFile], digests: Mapping[str, str], folder: Path) -> list[str]:
    """The names of the files whose content is no longer that of their `digests`; files without one are
    skipped.

    A file with the size and date that INPUTS in `folder` has for it is not read.
    """
    return _differing(_doubtful(files, digests, folder), digests)


def confirm(files: Sequence[InputFile], digests: Mapping[str, str], run: Path) -> None:
    """Raises JobError (73) if a file has other content than the run's documents were read from."""
    doubtful = _doubtful(files, digests, run)
    if other := _differing(doubtful, digests):
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        raise JobError(
            f"{run} holds the output of another job: input {other[0]}{more} has the same size, but another "
            "content (SHA-256). "
            f"{INGEST.maker.again(run)}; or give another --out",
            OUTPUT_EXISTS,
        )

    if doubtful:
        # A folder that cannot be written to: the files are compared again the next time.
        with suppress(OSError):
            write_dates(run, files)


def _doubtful(files: Sequence[InputFile], digests: Mapping[str, str], folder: Path) -> list[InputFile]:
    """The files with a digest whose size and date are not those in INPUTS."""
    try:
        dates = read_sealed(folder / INPUTS.path, _Dates).files
    except (FileNotFoundError, WrongShape):
        dates = {}
    return [file for file in files if file.name in digests and dates.get(file.name) != _date(file)]


def _differing(files: Sequence[InputFile], digests: Mapping[str, str]) -> list[str]:
    """The names of the files that have another digest; all files are read, several at a time."""
    if not files:
        return []

    compared: list[str] = []

    def differs(file: InputFile) -> bool:
        digest = sha256(file.path)
        compared.append(digest)
        return digest != digests[file.name]

    with (
        progress("compare input", len(files), lambda: len(compared), what="files"),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return [file.name for file, differ in zip(files, pool.map(differs, files), strict=True) if differ]


def _date(file: InputFile) -> list[int]:
    status = file.path.stat()
    return [status.st_size, status.st_mtime_ns]
