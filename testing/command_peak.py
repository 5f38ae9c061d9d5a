"""A command that writes its peak memory to a file: `python -m testing.command_peak FILE WORDS...`.

The words are those of `answermill`. Only the command itself can measure its peak: its `ru_maxrss` begins with
the memory of its starter.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from answermill.__main__ import main as answermill

STATUS = Path("/proc/self/status")


def own_peak_bytes() -> int:
    """Highest resident memory of this program so far, without its children.

    Not Linux's `ru_maxrss`, which begins with the memory that the process held before it became this program:
    that of its starter.
    """
    if STATUS.is_file():
        (line,) = (
            line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:")
        )
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_bytes() -> int:
    """Highest resident memory so far of this process or, if larger, of one of its children that have
    ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own_peak_bytes(), children if sys.platform == "darwin" else children * 1024)


def main() -> None:
    file, *words = sys.argv[1:]
    try:
        answermill(words)
    finally:
        Path(file).write_text(str(peak_bytes()), encoding="utf-8")


if __name__ == "__main__":
    main()
