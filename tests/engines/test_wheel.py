"""The wheel in a new environment, beside files of a user that are named as folders of ours: the sample, and
the examples of the page on Python.

`make test-wheel`. It is built from the source archive, and finds other packages in the environment of the
tests. Some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from testing.engines import ROOT
from tests.answermill.test_api import examples

pytestmark = pytest.mark.engines
REFUSES = 'raise RuntimeError("a file of the user was imported")\n'
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def call(command: Sequence[str | Path], folder: Path) -> str:
    """What the command prints, in the user's folder, from which Python imports first."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, of the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=ROOT, check=True
    )
    (archive,) = folder.glob("*.tar.gz")
    subprocess.run(
        [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, archive], check=True
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("schemas.py", "ranking.py", "files.py", "pipelines/__init__.py", "indexing/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(REFUSES)
    return folder


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the new environment's programs."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # Whose own .pth files are not read.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    subprocess.run(
        [*PIP, "--python", python, "install", "--no-deps", "--no-index", "--ignore-installed", wheel],
        check=True,
    )
    return folder / "bin"


def test_it_is_what_is_imported(programs: Path, user: Path) -> None:
    place = call([programs / "python", "-c", "import answermill; print(answermill.__file__)"], user).strip()
    assert Path(place).is_relative_to(programs.parent)


def test_the_sample_and_the_examples_of_the_page_run(programs: Path, user: Path) -> None:
    out = call(
        [programs / "answermill", "sample", "--out", "out/sample", "--set", "workers.processes=2"], user
    )
    assert "\nrerank     90 questions, " in out
    (user / "mine.py").write_text(examples(user))
    call([programs / "python", "mine.py"], user)
    assert (user / "out" / "checkpoint").is_dir()
