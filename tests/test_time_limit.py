"""A test that hangs, or that ends its process, fails the suite and is named; where many do, the suite
ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HANGS = "import time\ndef test_that_hangs(): time.sleep(600)\n"
DIES = """
import os, signal, pytest
@pytest.mark.parametrize("n", range(9))
def test_that_dies(n): os.kill(os.getpid(), signal.SIGKILL)
"""


def suite(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Our settings for pytest, and the options that the Makefile gives it, over the tests of a folder."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    from_make = next(
        line.partition("-n $(WORKERS)")[2].split()
        for line in makefile.splitlines()
        if "-n $(WORKERS)" in line
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "-n",
        "1",
        *from_make,
        *options,
        folder,
    ]

    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.nightly
@pytest.mark.parametrize(("code", "name"), [(HANGS, "test_that_hangs"), (DIES, "test_that_dies")])
def test_a_test_that_ends_its_process_fails_and_is_named(code: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(code)
    done = suite(tmp_path, "-o", "faulthandler_timeout=2")
    assert done.returncode == 1 and f"crashed while running 'test_it.py::{name}" in done.stdout.replace(
        str(tmp_path), ""
    ), done.stdout
    assert done.stdout.count("node down") <= 4, done.stdout
