"""The machine of the command that commits a step, and the versions of what it runs on, for people who read a
report."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from answermill.pipelines.revision import revision

LIBRARIES = ("apache-beam", "torch", "transformers", "faiss-cpu", "pyserini", "spacy", "pyarrow")


@cache
def environment() -> dict[str, str]:
    """'machine' → its description; 'Python', 'answermill', and each installed library of LIBRARIES → its
    version."""
    versions = {"answermill": revision()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # faiss-gpu has its name instead
            continue
    return {"machine": _machine(), "Python": platform.python_version(), **versions}


def _machine() -> str:
    """'2 cores, 8 GB, Intel(R) Xeon(R) Processor @ 2.20GHz'."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} cores, {memory:,.0f} GB, {processor()}"


def processor() -> str:
    """Its model, 'Intel(R) Xeon(R) Processor @ 2.20GHz'; its architecture where the model is not known."""
    description = Path("/proc/cpuinfo")
    lines = description.read_text(encoding="utf-8").splitlines() if description.is_file() else []
    model = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor()
    )
    return model or platform.machine()
