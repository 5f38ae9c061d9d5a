"""What deploy/Dockerfile installs, in a new environment: a pool of it, with an empty home and no network,
does a whole job.

`make test-image`. It installs all that the package needs: 0.9 GB to download, and minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.engines import ROOT, digests
from tests.engines.small_job import call, words

SCRIPT = [sys.executable, str(ROOT / "deploy" / "without_docker.py")]
PORT = 50000
pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """The folder of the new environment."""
    for program in ("unshare", "nsenter", "ip"):
        if not shutil.which(program):
            pytest.skip(
                f"{program}, with which a command is cut off from the network, is not on this machine"
            )
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may cut a command off from the network")
    with tempfile.TemporaryDirectory(prefix="answermill-image-", dir="/var/tmp") as folder:
        subprocess.run([*SCRIPT, folder], check=True)
        yield Path(folder)


def listens(process: int) -> bool:
    """Whether something listens on PORT in the network of this process."""
    return any(
        f":{PORT:04X} " in Path(f"/proc/{process}/net/{table}").read_text(encoding="utf-8")
        for table in ("tcp", "tcp6")
    )


@pytest.fixture
def pool(environment: Path) -> Iterator[int]:
    """A pool of the new environment; the id of its process, on whose network it is."""
    command = [*SCRIPT, str(environment), "python", "-m", "apache_beam.runners.worker.worker_pool_main"]
    process = subprocess.Popen(
        [*command, f"--service_port={PORT}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not listens(process.pid):
            assert process.poll() is None, "the pool has ended"
            time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def test_it_finds_all_that_it_needs_without_a_network(environment: Path) -> None:
    done = subprocess.run(
        [*SCRIPT, str(environment), "answermill", "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (environment / "home" / ".cache").exists()


def test_its_pool_gives_the_same_bytes_without_a_network(
    environment: Path, pool: int, small_run: Path, in_process: Path, tmp_path: Path
) -> None:
    """The command is that of this checkout: the wheel has the same revision."""
    interfaces = Path(f"/proc/{pool}/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    assert [line.partition(":")[0].strip() for line in interfaces] == ["lo"]
    job = words(small_run.parent / "job.toml", tmp_path / "run")
    beam = ["--environment_type=EXTERNAL", f"--environment_config=127.0.0.1:{PORT}"]
    command = [sys.executable, "-m", "answermill", *job, "workers.processes=2", "--", *beam]
    done = call(["nsenter", "-t", str(pool), "-n", *command])
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(in_process)
    assert not any((environment / "home").iterdir())
