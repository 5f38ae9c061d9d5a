"""Errors that a user can mend, with the exit code that a scheduler sees: sysexits, and 3 for a comparison
that B lost."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

USAGE, WORSE, BAD_DATA, INPUT_MISSING, UNAVAILABLE, UNEXPECTED, OUTPUT_EXISTS, IO, SETTINGS = (
    2,
    3,
    65,
    66,
    69,
    70,
    73,
    74,
    78,
)
INTERRUPTED, TERMINATED = 130, 143
"""128 and the number of the signal: SIGINT, which Ctrl-C sends, and SIGTERM."""

DISK = {os.strerror(code): code for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)}
"""Words for which an error of Java, FAISS or another library is one of the disk."""
_TEMPORARY = re.compile(r"(^|/)\.([^/]+?)(?:\.[0-9a-f]{32})?\.tmp(?=/|$)")
"""A name under which a file or folder is written until it is complete; group 2 is the name that it gets
then."""


def counted(number: int, noun: str) -> str:
    """'1 page', '2,000 pages': a number with its noun, for messages."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def of_the_disk(error: OSError, folder: Path | None) -> str:
    """The user's file, or else the folder that was written, and what is wrong with it; never the name of a
    temporary file."""
    number = error.errno or next((DISK[words] for words in DISK if words in str(error)), None)
    if number is None:
        return str(error)
    name = error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename or b"")
    place = _TEMPORARY.sub(r"\1\2", name) or str(folder or "")
    advice = "; free some space, and type the same command: it goes on where it was"
    return f"{place}: {os.strerror(number)}{advice if number in (errno.ENOSPC, errno.EDQUOT) else ''}".removeprefix(
        ": "
    )


class JobError(Exception):
    """What went wrong, where, and what to type; `code` is the exit status of the command.

    Both are in `args`, of which it is made again where it is unpickled, and by Beam. The code is a note as
    well, so that it is in the traceback, which is all that Beam hands over of a worker's error
    (engine/beam_errors.py).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code
        self.add_note(f"exit code {code}")

    def __str__(self) -> str:
        return str(self.args[0])


class EngineEnded(JobError):
    """An engine ended the job, for a reason that is none of a unit's, such as a worker that was lost."""


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM has come. Beam makes it anew from `args`, whose first is a text: when the command
    stops."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def is_unexpected(error: BaseException) -> bool:
    """Whether the work may succeed the next time: no error that a user can mend, and none of a full disk."""
    return not any(
        isinstance(cause, JobError)
        or isinstance(getattr(cause, "exit_code", None), int)
        or any(words in str(cause) for words in DISK)
        for cause in causes(error)
    )
