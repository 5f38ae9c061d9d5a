"""The lock of a folder, so that one process at a time writes into it; or several that share it, and no other.

Commands that share a run (engine/machines/) agree among themselves which of them commits. The others, and all
commands that do not share, are kept out by the same file: those that share hold it as readers, one that does
not as a writer.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from answermill.files.store import store_of
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.watch.progress import print_line

LOCK = ".lock"
"""The file in a folder that its process holds. The lock is the operating system's: it ends with the process,
and a file that a killed process left locks nobody out."""
_shared: dict[Path, Callable[[], object]] = {}
"""Folder that this process shares → function that raises an error if it may not commit there now."""


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

    lock = FileLock(folder / LOCK, blocking=False, fallback_to_soft=False)
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


@contextmanager
def shared(folder: Path, confirm: Callable[[], object]) -> Iterator[None]:
    """Share `folder` with other processes that share it, and keep all others out, until the block ends.

    `confirm` is called before this process commits there, and raises an error if another one does so now. The
    folder is created if necessary. Raises JobError (73) if a process that does not share is writing into the
    folder, or if it is a file; a file system or a store without locks is treated as by `claimed`.
    """
    _shared[folder] = confirm
    descriptor = None
    try:
        if store_of(folder).has_locks:
            descriptor = _open_as_reader(folder)
        yield
    finally:
        del _shared[folder]
        if descriptor is not None:
            _close_as_reader(folder, descriptor)


def _open_as_reader(folder: Path) -> int | None:
    """Descriptor of the lock's file, which is held as a reader; None if the file system has no locks."""
    if folder.is_file():
        raise JobError(f"{folder} is a file; give a folder", OUTPUT_EXISTS)

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise JobError(
                f"{folder}: a process is writing here that does not share the run; wait until it ends, stop "
                "it and type it again with --join, or give another folder",
                OUTPUT_EXISTS,
            ) from None
        except OSError as e:
            os.close(descriptor)
            print_line(
                f"{folder} cannot be locked ({e.strerror}): make sure that only commands with --join write "
                "there"
            )
            return None

        # The last holder removes the file; then the lock is that of a file that nobody finds any more.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), (folder / LOCK).stat()):
                return descriptor
        os.close(descriptor)


def _close_as_reader(folder: Path, descriptor: int) -> None:
    """Give the lock back; the last holder removes its file."""
    with suppress(OSError):  # others hold it
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / LOCK).unlink(missing_ok=True)
    os.close(descriptor)


def is_alone(folder: Path) -> bool:
    """True if no other command can be at work in the folder, so that files which nothing names are left
    over."""
    return store_of(folder).has_locks and _sharing(folder) is None


def confirm_commit(folder: Path) -> None:
    """Raises an error if this process shares the folder, and another process commits there now."""
    if (confirm := _sharing(folder)) is not None:
        confirm()


def _sharing(folder: Path) -> Callable[[], object] | None:
    """The `confirm` of the shared folder that this one is, or is in; None if there is none."""
    return next((_shared[place] for place in (folder, *folder.parents) if place in _shared), None)
