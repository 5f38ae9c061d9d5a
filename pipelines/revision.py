"""Which code of AnswerMill a process runs: that of a command and that of its workers must be the same."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("answermill", "indexing", "pipelines", "ranking", "schemas")
ROOT = Path(__file__).parents[1]
"""The folder that holds the packages: a checkout, or site-packages."""


def code_version() -> str:
    """The version of the installed package."""
    try:
        return version("answermill")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "uninstalled"


@cache
def revision() -> str:
    """'0.1.0-1f2e3d4c5b6a': the version, and a digest of the packages' Python files as they are when this is first called.

    The same files have the same digest wherever they are installed.
    """
    digest = hashlib.sha256()
    for name in PACKAGES:
        for file in sorted((ROOT / name).rglob("*.py")):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return f"{code_version()}-{digest.hexdigest()[:12]}"
