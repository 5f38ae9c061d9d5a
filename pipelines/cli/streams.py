"""stdout and stderr that never fail a run: characters that cannot be shown are escaped, and output that
nobody reads is left out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


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
