"""A night by examples/schedulers: by the Snakemake and the Airflow that are on PATH.

`make test-schedulers`. The night's run is a copy of the small one, so that its steps have nothing to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testing.engines import ROOT

FOLDER = ROOT / "examples" / "schedulers"
pytestmark = pytest.mark.engines


@pytest.fixture
def place(small_run: Path, tmp_path: Path) -> Path:
    """A folder with a command `answermill`, and a copy of the small run as that of a night."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "answermill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m answermill "$@"\n')
    command.chmod(0o755)
    shutil.copytree(small_run, tmp_path / "runs" / "2026-01-01")
    return tmp_path


def variables(place: Path, small_run: Path, **more: str) -> dict[str, str]:
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    job = {"JOB": str(small_run.parent / "job.toml"), "RUNS": str(place / "runs")}
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **job, **more}


def call(*words: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(words), env=env, cwd=env["RUNS"], capture_output=True, text=True, check=False)


def test_a_night_of_the_whole_job_is_compared_by_its_labels_and_published(
    place: Path, small_run: Path
) -> None:
    runs, env = place / "runs", variables(place, small_run)
    shutil.copytree(small_run, runs / "2026-01-02")
    words = ("answermill", "night", env["JOB"], "--runs", runs, "--night")
    for night, says in (("2026-01-01", "no good run yet"), ("2026-01-02", "P@1 of judged candidates")):
        done = call(*words, night, env=env)
        assert done.returncode == 0 and says in done.stdout, done.stderr
        assert (runs / "good").readlink() == Path(night) and "all as they were written" in done.stdout


def test_snakemake_does_a_night(place: Path, small_run: Path) -> None:
    if not shutil.which("snakemake"):
        pytest.skip("snakemake is not on PATH")
    words = ("--cores", "1", "--snakefile", FOLDER / "Snakefile", "--config", "night=2026-01-01")
    done = call("snakemake", *words, env=variables(place, small_run))
    assert done.returncode == 0, done.stderr
    assert (place / "runs" / "good").readlink() == Path("2026-01-01")
    again = call("snakemake", *words, env=variables(place, small_run))
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr


def test_airflow_does_a_night(place: Path, small_run: Path) -> None:
    if not shutil.which("airflow"):
        pytest.skip("airflow is not on PATH")
    (place / "dags").mkdir()
    text = (FOLDER / "airflow_dag.py").read_text(encoding="utf-8")

    text = text.replace("/data/job.toml", str(small_run.parent / "job.toml"))
    (place / "dags" / "night.py").write_text(text.replace("/data/runs", str(place / "runs")))
    settings = {"AIRFLOW_HOME": str(place), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONPATH": str(ROOT)}
    env = variables(place, small_run, **settings)
    assert call("airflow", "db", "migrate", env=env).returncode == 0
    done = call("airflow", "dags", "test", "answermill", "2026-01-01", env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (place / "runs" / "good").readlink() == Path("2026-01-01")
