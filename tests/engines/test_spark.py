"""The small job on a real Spark, on one machine: the same bytes as in this process. `make test-spark`."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.engines import EngineMissing, digests, spark
from tests.engines.small_job import call, command


@pytest.mark.engines
@pytest.mark.parametrize("cores", [2, 4])
def test_threads_of_spark_give_the_same_bytes(
    small_run: Path, in_process: Path, tmp_path: Path, cores: int
) -> None:
    try:
        with spark(cores) as options:
            done = call(command(small_run, tmp_path / "run", options))
    except EngineMissing as e:
        pytest.skip(str(e))
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "run") == digests(in_process)
