"""One process at a time writes into a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.errors import OUTPUT_EXISTS, JobError
from pipelines.execution.progress import print_line


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep all others out of `folder` until the block ends or this process does, however it ends.

    The folder is made, and removed again where the block wrote nothing into it. The lock is the operating system's and on the
    folder itself, so that nothing is left to delete after a kill. Where the file system knows no locks a line on stderr says
    so. Raises JobError (73) where another process holds the folder, or it is a file.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise JobError(f"{folder} is a file; give a folder", OUTPUT_EXISTS) from None
    held = os.open(folder, os.O_RDONLY)
    try:
        _lock(held, folder)
        try:
            yield
        finally:
            if made:
                with suppress(OSError):  # it holds something
                    folder.rmdir()
    finally:
        os.close(held)


def _lock(held: int, folder: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = os.path.samestat(os.fstat(held), folder.stat())  # else its holder has removed it, and a third made it again
    except (BlockingIOError, FileNotFoundError):
        free = False
    except OSError as e:
        print_line(f"{folder} cannot be locked ({e.strerror}): see to it that nothing else writes there")
        return
    if not free:
        raise JobError(f"{folder}: another process is writing here; wait until it ends, or give another --out", OUTPUT_EXISTS)
