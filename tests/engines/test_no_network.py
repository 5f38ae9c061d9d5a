"""The whole sample, models and all, in a network namespace without interfaces, and with no caches of the
user.

`make test-network`. It takes a minute; only root may make such a namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testing.engines import ROOT

pytestmark = pytest.mark.engines
TRIES_TO_CONNECT = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"


@pytest.fixture(scope="module")
def unshared() -> list[str]:
    """Words before a command that has no network."""
    if not shutil.which("unshare"):
        pytest.skip("unshare, with which a command is cut off from the network, is not on this machine")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may cut a command off from the network here")
    return ["unshare", "--net"]


def test_there_is_no_network(unshared: list[str]) -> None:
    done = subprocess.run(
        [*unshared, sys.executable, "-c", TRIES_TO_CONNECT], capture_output=True, text=True, check=False
    )
    assert "Network is unreachable" in done.stderr


@pytest.mark.parametrize(
    "settings", [[], ["--set", "workers.processes=2"]], ids=["one process", "two workers"]
)
def test_the_sample_runs_and_is_verified_without_a_network(
    unshared: list[str], tmp_path: Path, settings: list[str]
) -> None:
    (tmp_path / "home").mkdir()
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    variables = {name: value for name, value in variables.items() if not name.startswith("HF_")}
    answermill = f"{sys.executable} -m answermill"

    out = tmp_path / "sample"
    loopback = "ip link set lo up && " if settings else ""  # on which the command waits for its workers
    script = (
        f"{loopback}{answermill} sample --out {out} {' '.join(settings)} && {answermill} verify {out / 'run'}"
    )
    done = subprocess.run(
        [*unshared, "sh", "-c", script],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    assert "\nrerank     90 questions, " in done.stdout and "all as they were written" in done.stdout
