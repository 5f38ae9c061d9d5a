"""Stop of a command: it begins no further unit of work, and ends when the units at work are reported.

The command and its worker processes share a pipe, which nobody reads: when the command is to stop, a byte is
written, and all of them see it at the same moment, so that none begins a unit that another has left out.
Loads next to nothing.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager

from answermill.pipelines.errors import Stopped

_ends: dict[str, int] = {}
"""'read' → the descriptor that becomes readable when the command is to stop; 'write', in the command itself →
the descriptor to which the byte is written."""


@contextmanager
def at_work() -> Iterator[None]:
    """Let units be done in the block, here or in worker processes. Raises Stopped at its end if
    `request_stop` was called meanwhile."""
    ends = os.pipe()
    _ends["read"], _ends["write"] = ends
    try:
        yield
    finally:
        try:
            # Deleted before the check: a signal after it is raised, since no unit would see the byte.
            del _ends["write"]
            is_stopped = is_stopping()
        finally:
            _ends.clear()
            for end in ends:
                os.close(end)

    if is_stopped:
        raise Stopped("between two units")


def request_stop() -> bool:
    """Let no further unit begin; False if none are at work, so that there is nothing to wait for."""
    if "write" not in _ends:
        return False
    os.write(_ends["write"], b".")
    return True


def is_stopping() -> bool:
    """True if the command is to stop."""
    if "read" not in _ends:
        return False
    pipe = select.poll()
    pipe.register(_ends["read"], select.POLLIN)
    return bool(pipe.poll(0))


def descriptor() -> int | None:
    """The descriptor that a worker process has to inherit, and to `follow`; None where the command waits for
    no unit."""
    return _ends.get("read")


def follow(read: int) -> None:
    """Make this a worker process of the command whose `descriptor` this is."""
    _ends["read"] = read
