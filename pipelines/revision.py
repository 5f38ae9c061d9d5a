"""Revision of the AnswerMill code that a process runs; a command and its workers must have the same."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The installed package; in a checkout its folders are links to those beside it."""
UNINSTALLED = "uninstalled"
"""Version of a checkout that was never installed."""


def code_version() -> str:
    """The version of the installed package."""
    try:
        return version("answermill")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return UNINSTALLED


@cache
def revision() -> str:
    """The version, and a digest of the package's Python files at the first call: '0.1.0-1f2e3d4c5b6a'.

    The same files have the same digest wherever they are installed.
    """
    digest = hashlib.sha256()
    folders = os.walk(PACKAGE, followlinks=True)  # a checkout's links count as what they lead to
    for file in sorted(
        Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")
    ):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return f"{code_version()}-{digest.hexdigest()[:12]}"
