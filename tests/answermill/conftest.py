"""Processes that have loaded no plug-in, and the example of plug-ins, installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from answermill.schemas import plug_ins

EXAMPLE = Path(__file__).parents[2] / "examples/plug_in"


def forget() -> None:
    """As if this process were new."""
    plug_ins._loaded.clear()
    plug_ins._folders.clear()
    plug_ins.installed.cache_clear()
    plug_ins._digest.cache_clear()
    for name in [name for name in sys.modules if name.startswith(("answermill_example", "own_"))]:
        del sys.modules[name]


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget()
    yield
    forget()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder into which pip has installed the example."""
    source = tmp_path_factory.mktemp("example") / "plug_in"
    shutil.copytree(EXAMPLE, source)
    site = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, source], check=True)
    return site


@pytest.fixture
def installed(site: Path, tmp_path: Path) -> Path:
    """The example's package, copied, on the path of this process and of its workers."""
    own = tmp_path / "site"
    shutil.copytree(site, own)
    sys.path.insert(0, str(own))
    return own / "answermill_example"
