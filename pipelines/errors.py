"""Errors that a user can mend, with the exit code that a scheduler sees: sysexits, and 3 for a comparison that B lost."""

from __future__ import annotations

USAGE, WORSE, BAD_DATA, INPUT_MISSING, UNAVAILABLE, UNEXPECTED, OUTPUT_EXISTS, IO, SETTINGS = 2, 3, 65, 66, 69, 70, 73, 74, 78
INTERRUPTED, TERMINATED = 130, 143
"""128 and the number of the signal: SIGINT, which Ctrl-C sends, and SIGTERM."""


def counted(number: int, noun: str) -> str:
    """'1 page', '2,000 pages': a number with its noun, for messages."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


class JobError(Exception):
    """What went wrong, where, and what to type; `code` is the exit status of the command.

    Both are in `args`, from which Beam makes a new exception of the same class. The code is a note as well, so that it is in
    the traceback, which is all that Beam hands over of a worker process's error (`execution/worker_errors.py`).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code
        self.add_note(f"exit code {code}")

    def __str__(self) -> str:
        return str(self.args[0])


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM has come. Beam makes it anew from `args`, which therefore begin with a text."""

    def __init__(self, signal: object) -> None:
        super().__init__(f"signal {signal}")
