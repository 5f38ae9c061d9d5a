"""A night's run by examples/schedulers: by its script, and by the Snakemake and the Airflow that are on PATH.

`make test-schedulers`. The runs are copies of the small one, so that `answermill run` has nothing to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.errors import WORSE
from testing.engines import ROOT

FOLDER = ROOT / "examples" / "schedulers"
pytestmark = pytest.mark.engines


@pytest.fixture
def place(small_run: Path, tmp_path: Path) -> Path:
    """A folder with a command `answermill`, and copies of the small run as those of three nights."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "answermill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m answermill "$@"\n')
    command.chmod(0o755)
    for night in ("2026-01-01", "2026-01-02", "2026-01-03"):
        shutil.copytree(small_run, tmp_path / "runs" / night)
    return tmp_path


def variables(place: Path, small_run: Path, **more: str) -> dict[str, str]:
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    job = {"JOB": str(small_run.parent / "job.toml"), "RUNS": str(place / "runs")}
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **job, **more}


def call(*words: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(words), env=env, cwd=env["RUNS"], capture_output=True, text=True, check=False)


def better(scores: Path) -> None:
    """Say that each question of a night was answered well."""
    table = pq.read_table(scores)
    rows = [row | {"value": 1.0} if row["metric"] == "P@1" else row for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), scores)


def test_a_worse_run_is_not_published(place: Path, small_run: Path) -> None:
    runs = place / "runs"
    first = call("sh", FOLDER / "night.sh", env=variables(place, small_run, NIGHT="2026-01-01"))
    assert first.returncode == 0, first.stderr
    assert (runs / "good").readlink() == Path("2026-01-01") and "all as they were written" in first.stdout
    same = call("sh", FOLDER / "night.sh", env=variables(place, small_run, NIGHT="2026-01-02"))
    assert same.returncode == 0 and (runs / "good").readlink() == Path("2026-01-02")
    better(runs / "2026-01-02.scores.parquet")
    metrics = place / "night.prom"
    worse = call(
        "sh", FOLDER / "night.sh", env=variables(place, small_run, NIGHT="2026-01-03", METRICS=str(metrics))
    )
    assert worse.returncode == WORSE, worse.stderr

    assert "answermill: B is worse by" in worse.stderr and (runs / "good").readlink() == Path("2026-01-02")
    assert 'answermill_exit_code{run="' in metrics.read_text() and (runs / "2026-01-03").is_dir()


def test_snakemake_does_the_stages(place: Path, small_run: Path) -> None:
    if not shutil.which("snakemake"):
        pytest.skip("snakemake is not on PATH")
    words = ("--cores", "1", "--snakefile", FOLDER / "Snakefile", "--config", "night=2026-01-01")
    done = call("snakemake", *words, env=variables(place, small_run))
    assert done.returncode == 0, done.stderr
    assert (place / "runs" / "good").readlink() == Path("2026-01-01")
    again = call("snakemake", *words, env=variables(place, small_run))
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr


def test_airflow_does_the_tasks(place: Path, small_run: Path) -> None:
    if not shutil.which("airflow"):
        pytest.skip("airflow is not on PATH")
    (place / "dags").mkdir()
    text = (FOLDER / "airflow_dag.py").read_text(encoding="utf-8")

    for former, here in (
        ("/opt/answermill", str(FOLDER)),
        ("/data/job.toml", str(small_run.parent / "job.toml")),
    ):
        text = text.replace(former, here)

    (place / "dags" / "night.py").write_text(text.replace("/data/runs", str(place / "runs")))
    settings = {"AIRFLOW_HOME": str(place), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONPATH": str(ROOT)}
    env = variables(place, small_run, **settings)
    assert call("airflow", "db", "migrate", env=env).returncode == 0
    done = call("airflow", "dags", "test", "answermill", "2026-01-01", env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (place / "runs" / "good").readlink() == Path("2026-01-01")
