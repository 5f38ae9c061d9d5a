"""The job's run on the sample web, packed in `sample_run.zip`: `python -m testing.sample_run` makes it anew.

Tests read it where they would otherwise wait a minute for a run. One of them fails as soon as the job, its
models or a step's revision differ from those that it was made with. The nightly tests compare it with a fresh
run.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.steps.chain import run_steps, steps_of

ARCHIVE = Path(__file__).with_name("sample_run.zip")
RUN = "run"


def unpack(folder: Path) -> Path:
    """Unpack the run into a copy of the sample; returns its path."""
    copy_to(folder)
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder / RUN)
    return folder / RUN


def make(folder: Path) -> Path:
    """A fresh run in a copy of the sample; returns its path."""
    job = load(copy_to(folder))
    for _ in run_steps(job, folder / RUN, steps_of(job), ()):
        pass
    return folder / RUN


def pack(run: Path, archive: Path) -> None:
    """Write the files of a run, without the hidden ones, which commands need only while they work; the same
    files give the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in run.rglob("*") if path.is_file()):
            name = path.relative_to(run).as_posix()
            if not name.startswith("."):
                packed.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)


def main() -> None:
    """Make the archive anew."""
    with tempfile.TemporaryDirectory() as folder:
        pack(make(Path(folder)), ARCHIVE)


if __name__ == "__main__":
    main()
