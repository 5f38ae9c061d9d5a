"""stdout and stderr that never fail a run: characters that cannot be shown are escaped, and output that
nobody reads is left out. And the lines of a command, on stdout or for Python."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from answermill.pipelines.runs.watch import log_lines


class LenientStream:
    """Text stream whose writing never fails. After the first error, kept in `error`, it writes nothing.

    Characters that its encoding lacks are written as escapes, e.g. \\xd7 for the multiplication sign.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.error: OSError | None = None
        if stream is None:  # the descriptor is closed: Python has no stream for it
            stream = io.StringIO()
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream

    def write(self, text: str) -> int:
        if self.error is None:
            try:
                self._stream.write(text)
            except OSError as e:
                self._close(e)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        if self.error is None:
            try:
                self._stream.flush()
            except OSError as e:
                self._close(e)

    def _close(self, error: OSError) -> None:
        """Redirect the descriptor to nowhere, so that buffered text does not fail again when Python ends."""
        self.error = error
        with suppress(OSError, ValueError):
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, self._stream.fileno())
            os.close(descriptor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lenient_streams() -> Iterator[LenientStream]:
    """Make sys.stdout and sys.stderr lenient in the block; yields the first."""
    former = sys.stdout, sys.stderr
    lenient = LenientStream(sys.stdout), LenientStream(sys.stderr)
    sys.stdout, sys.stderr = lenient
    try:
        yield lenient[0]
    finally:
        for stream in lenient:
            stream.flush()
        sys.stdout, sys.stderr = former


_collected: ContextVar[list[str] | None] = ContextVar("lines", default=None)


@contextmanager
def collected_lines() -> Iterator[list[str]]:
    """The list that `write_lines` appends to in this block, in place of stdout: the command was called from
    Python."""
    lines: list[str] = []
    token = _collected.set(lines)
    try:
        yield lines
    finally:
        _collected.reset(token)


def are_collected() -> bool:
    """True where a command was called from Python, so that nobody types at its stdin."""
    return _collected.get() is not None


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout, each as soon as it is yielded; as JSON objects if --log-format says so."""
    collected = _collected.get()
    for line in lines:
        if collected is not None:
            collected.append(line)
            continue
        sys.stdout.write(log_lines.line(line))
        sys.stdout.flush()
