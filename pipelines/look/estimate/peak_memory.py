"""The most memory that this program has held."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def own_peak_bytes() -> int:
    """Highest resident memory of this program so far, without its children.

    Not Linux's `ru_maxrss`, which begins with what the process held before it became this program: that of who started it.
    """
    if STATUS.is_file():
        (line,) = (line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
