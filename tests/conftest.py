from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that we may not ship; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the measuring data (../shared/data) is not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run of the job on the sample web; for reading only."""
    from pipelines.config.job_file import load
    from pipelines.sample import copy_to
    from pipelines.steps.chain import run_steps, steps_of

    folder = tmp_path_factory.mktemp("sample")
    job = load(copy_to(folder))
    list(run_steps(job, folder / "run", steps_of(job), ()))
    return folder / "run"
