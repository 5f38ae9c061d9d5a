from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from testing.object_store import ObjectStore

# Before tests import numpy, torch and transformers; processes that tests start inherit it.
for library in ("OMP", "MKL", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# Where a test asks for more threads than there are idle cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"  # a model that is not here is missing at once, with a network or without

hypothesis.settings.register_profile("fast", max_examples=30, derandomize=True, deadline=None)
# Pytest --hypothesis-profile nightly.
hypothesis.settings.register_profile("nightly", max_examples=300, deadline=None)
hypothesis.settings.load_profile("fast")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def not_synced(descriptor: int) -> None:
    """In place of `os.fsync`, on which a test run would wait for minutes: no test pulls the plug. Tests watch
    the calls."""
    os.fstat(descriptor)


os.fsync = not_synced
BEGIN_WITH = "test_end_to_end.py"
"""The longest file, during which other processes have the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest file first, and those that wait for the small run last, when it is there."""
    waiting = {item.path for item in items if "small_run" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: 0 if item.path.name == BEGIN_WITH else 2 if item.path in waiting else 1)


def pytest_collectstart() -> None:
    """Stop the collector where tests are loaded: it would look at all of them again and again. A process that
    starts the others, and loads none, keeps its own."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector work from here on, without what was loaded, which stays until the end; and seldom,
    since each test imports more that stays."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that we may not ship; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the measuring data (../shared/data) is not on this machine")
    return SHARED_DATA


def shared_folder(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """The folder `name` in this session's temporary folder: the first process that asks for it fills it,
    others wait."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, filled = base / name, base / f"{name}.filled"
    with FileLock(base / f"{name}.lock"):
        if not filled.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            filled.touch()
    return folder


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed run of the job on the sample web; for reading only."""
    from testing.sample_run import unpack

    return shared_folder(tmp_path_factory, "sample", unpack) / "run"


@pytest.fixture(scope="session")
def fresh_sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of that job by this machine, which takes a minute; for reading only."""
    from testing.sample_run import make

    return shared_folder(tmp_path_factory, "fresh", make) / "run"


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of the same steps and stages with small random models, on a sixth of the questions; for
    reading only."""
    from answermill.pipelines.config.job_file import load
    from answermill.pipelines.steps.chain import run_steps, steps_of
    from testing.tiny import write_job

    def fill(folder: Path) -> None:
        job = load(write_job(folder, every=6))
        list(run_steps(job, folder / "run", steps_of(job), ()))

    return shared_folder(tmp_path_factory, "small", fill) / "run"


@pytest.fixture(scope="session")
def s3() -> Iterator[ObjectStore]:
    """An object store on this machine, which this process and those that it starts reach as s3://bucket."""
    from testing.object_store import serving

    with serving() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store
