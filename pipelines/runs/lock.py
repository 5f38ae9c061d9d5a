"""The lock of a folder, so that one process at a time writes into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from answermill.files.store import store_of
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.watch.progress import print_line

LOCK = ".lock"
"""The file in a folder that its process holds. The lock is the operating system's: it ends with the process,
and a file that a killed process left locks nobody out."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep all other processes out of `folder` until the block ends.

    The folder is created if necessary, and then removed again if the block wrote nothing into it. If the file
    system has no locks, a line on stderr says so. Raises JobError (73) if another process is writing into the
    folder, or if it is a file.

    A store has no locks, and needs none: file names contain a content's hash or an attempt, the first of two
    reports or manifests stays, and nothing is swept before the manifests exist (`Commit.finish`).
    """
    if not store_of(folder).has_locks:
        yield
        return

    try:
        folder.mkdir(parents=True)
        created = True
    except FileExistsError:
        if folder.is_file():
            raise JobError(f"{folder} is a file; give a folder", OUTPUT_EXISTS) from None
        created = False

    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    # The last two: the other process removes the folder at this moment.
    except (Timeout, FileExistsError, FileNotFoundError):
        raise JobError(
            f"{folder}: another process is writing here; wait until it ends, or give another folder",
            OUTPUT_EXISTS,
        ) from None
    except OSError as e:
        print_line(f"{folder} cannot be locked ({e.strerror}): make sure that no other process writes there")

    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)  # before the release, or it might be the next process's
        lock.release()
        if created:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()
