"""A folder that one command fills as a whole, such as a data set or a job: new, or empty."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from answermill.files.atomic_files import write_text
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.lock import LOCK, claimed

UNFINISHED = ".unfinished"
"""Mark of a folder that is being filled: all in it is of the command that does so."""


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder of this machine while the block fills it.

    What a command that was killed there has left is removed first, and what the block has written if it
    fails. Raises JobError (73) if the folder has other files, is a file, or if another process is writing
    into it.
    """
    with claimed(folder):
        mark = folder / UNFINISHED
        if _inside(folder) and not mark.exists():
            raise JobError(f"{folder} exists already, and has files; name another folder", OUTPUT_EXISTS)

        _empty(folder)
        write_text(mark, "")
        try:
            yield
        except BaseException:
            _empty(folder)
            raise
        finally:
            mark.unlink()


def _inside(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in (LOCK, UNFINISHED)]


def _empty(folder: Path) -> None:
    for path in _inside(folder):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
