"""Lists of paths; CommonCrawl publishes one for each crawl and kind of file: warc.paths.gz, wet.paths.gz,
…"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from answermill.files.remote import as_path, scheme_of
from answermill.files.store import fetch, in_parallel, requests_to, store_of
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError

ROOTS = {"s3": "s3://commoncrawl/"}
"""Scheme of a list → the root of its paths, if the job names none."""
ROOT = "https://data.commoncrawl.org/"


def is_list(path: Path) -> bool:
    """True if a file is a list of paths, by its name."""
    return path.name.endswith((".paths", ".paths.gz"))


def listed(job: Job, settings: Ingest, path: Path, key: str) -> list[Path]:
    """The files of a list, in its order. Raises JobError: 66 if there is no such list, 65 if it cannot be
    read or is empty."""
    try:
        content = fetch(path).read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        entries = [line.strip() for line in content.decode("utf-8-sig").splitlines() if line.strip()]
    except FileNotFoundError:
        raise JobError(f"{key}: {path}: no such file", INPUT_MISSING) from None
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as e:
        raise JobError(f"{key}: {path}: not a list of paths: {e}", BAD_DATA) from e
    if not entries:
        raise JobError(f"{key}: {path}: no path in it", BAD_DATA)
    root = root_of(job, settings, path)
    return [below(root, entry, f"{key}: {path}") for entry in entries]


def root_of(job: Job, settings: Ingest, source: Path) -> Path:
    """The root of the paths in a list or index."""
    return job.path(settings.paths_root or ROOTS.get(scheme_of(source), ROOT))


def below(root: Path, entry: str, place: str) -> Path:
    """The file that an entry names, below the root, or by its own URL. Raises JobError (65) if it leads out
    of the root."""
    if scheme_of(entry):
        return as_path(entry)
    if entry.startswith("/") or ".." in entry.split("/"):
        raise JobError(f"{place}: {entry!r} is no path below {root}", BAD_DATA)
    return root / entry


def looked_up(paths: list[Path], key: str) -> list[Path]:
    """The same files, those of stores and servers with their sizes. Raises JobError (66) if one does not
    exist."""
    try:
        return list(
            in_parallel(lambda path: store_of(path).known(), paths, max(map(requests_to, paths), default=1))
        )
    except FileNotFoundError as e:
        raise JobError(f"{key}: {e}", INPUT_MISSING) from e
