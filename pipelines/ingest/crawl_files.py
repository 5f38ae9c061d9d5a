"""The input files of ingest, which are its units of work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.config.job_file import Ingest, Job
from pipelines.errors import INPUT_MISSING, JobError

KINDS = (".warc", ".wet", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One unit of work: the number-th input file, and its name as records carry it."""

    number: int
    path: Path
    name: str


def find_files(job: Job, settings: Ingest) -> list[InputFile]:
    """The input files in the order of their names. Raises JobError (66) if a pattern finds nothing."""
    paths: set[Path] = set()
    for pattern in settings.input:
        path = job.path(pattern)
        if path.is_dir():
            files = [p for p in path.rglob("*") if p.is_file() and any(kind in p.name for kind in KINDS)]
            if not files:
                raise JobError(f"ingest.input: no {', '.join(KINDS)} file in the folder {path}", INPUT_MISSING)
        elif path.is_file():
            files = [path]
        else:
            files = [p for p in job.folder.glob(pattern) if p.is_file()] if not Path(pattern).is_absolute() else []
            files = files or [p for p in path.parent.glob(path.name) if p.is_file()]
            if not files:
                raise JobError(
                    f"ingest.input: {pattern!r} is no file, folder or glob that finds files in {job.folder}", INPUT_MISSING
                )
        paths.update(p.resolve() for p in files)
    named = sorted((p.relative_to(job.folder).as_posix() if p.is_relative_to(job.folder) else str(p), p) for p in paths)
    return [InputFile(number, path, name) for number, (name, path) in enumerate(named)]
