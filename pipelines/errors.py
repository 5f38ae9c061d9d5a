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
"""Words that make an error of Java, FAISS or another library one of the disk."""
_TEMPORARY = re.compile(r"(^|/)\.([^/]+?)(?:\.[0-9a-f]{32})?\.tmp(?=/|$)")
"""Name of a file or folder while it is written; group 2 is its name once it is complete."""


def counted(number: int, noun: str) -> str:
    """Number with its noun, for messages: '1 page', '2,000 pages'."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def disk_message(error: OSError, folder: Path | None) -> str:
    """Message for a disk error: the user's file, or else the folder that was written, and the fault. Temporary
    files are never named."""
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
    """Error that a user can mend: what went wrong, where, and what to type; `code` is the command's exit
    status.

    Both are in `args`, from which unpickling and Beam make it again. The code is also a note and so part of the
    traceback, which is all that Beam hands over of a worker's error (engine/beam_errors.py). `fault` is what
    went wrong alone, without place and advice, if the caller may list it.
    """

    def __init__(self, message: str, code: int, fault: str = "") -> None:
        super().__init__(message, code)
        self.code = self.exit_code = code
        self.fault = fault
        self.add_note(f"exit code {code}")

    def __str__(self) -> str:
        return str(self.args[0])


def setting_error(error: Exception, key: str = "") -> JobError:
    """The error of a setting's value as one that a user can mend: with the exit code that it has itself, such
    as 66 where a file is missing, else 78. `key`: the setting, unless the message names it."""
    return JobError(f"{key and f'{key}: '}{error}", getattr(error, "exit_code", SETTINGS))


def check_file(path: Path, key: str = "", advice: str = "") -> None:
    """Raise JobError as `no_file` if the path is not that of a file."""
    if not path.is_file():
        raise no_file(path, key, advice)


def no_file(path: Path, key: str = "", advice: str = "") -> JobError:
    """An error (66) about a path where nothing is, or something other than a file. `key`: the setting or
    option that names it; `advice`: how to come by such a file."""
    problem = ": no such file"
    if path.exists():
        problem = " is a folder; give a file" if path.is_dir() else " is a pipe or a device; give a file"
    return JobError(f"{key and f'{key} '}{path}{problem}{advice and f'; {advice}'}", INPUT_MISSING)


def check_folder(path: Path, key: str = "") -> None:
    """Raise JobError (66) if the path is not that of a folder. `key` as of `no_file`."""
    if not path.is_dir():
        problem = " is a file; give a folder" if path.exists() else ": no such folder"
        raise JobError(f"{key and f'{key} '}{path}{problem}", INPUT_MISSING)


class EngineEnded(JobError):
    """An engine ended the job for a reason other than a unit's error, such as a lost worker."""


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM was received. Beam makes the error again from `args`, whose first says when the
    command stops."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, then its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def is_unexpected(error: BaseException) -> bool:
    """True if the work may succeed the next time: the error is neither a user's to mend nor a full disk."""
    return not any(
        getattr(cause, "exit_code", UNEXPECTED) != UNEXPECTED or any(words in str(cause) for words in DISK)
        for cause in causes(error)
    )
