"""A night by examples/schedulers, by the Snakemake and the Airflow that are on PATH; what Prometheus
makes of a night's metrics by deploy/monitoring/, if it is on PATH; and Kubernetes' schema of its manifests.

`make test-schedulers`. The night's run is a copy of the small one, so that its steps have nothing to do.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from answermill.__main__ import main
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


def test_kubernetes_knows_every_field_of_the_manifests() -> None:
    kubernetes = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    files = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    manifests = [each for file in files for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    assert "CronJob" in {manifest["kind"] for manifest in manifests}
    for manifest in manifests:
        kubernetes.validate(manifest, "1.29", strict=True)


MONITORING = ROOT / "deploy" / "monitoring"


def tool(name: str) -> str:
    """The path of a program of Prometheus; skips where it is missing."""
    return shutil.which(name) or pytest.skip(f"{name} is not on PATH")


def test_the_alerts_say_of_each_night_what_their_tests_expect(tmp_path: Path) -> None:
    promtool = tool("promtool")
    words = ("test", "rules", MONITORING / "answermill.rules.test.yaml")
    done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr

    # The panels of the dashboard, as rules.
    board = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel_{n}", "expr": expr.replace("$job", "job")} for n, expr in enumerate(targets)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "panels.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stdout + done.stderr


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a web server of a folder's files."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_prometheus_calls_for_help_after_a_night_that_failed(tmp_path: Path) -> None:
    prometheus, port = tool("prometheus"), free_port()
    job = tmp_path / "job.toml"
    job.write_text('[ingest]\ninput = ["missing.warc.gz"]\n')
    words = ("night", job, "--runs", tmp_path / "runs", "--metrics", tmp_path / "metrics")
    with pytest.raises(SystemExit) as e:
        main([str(word) for word in words])
    assert e.value.code == 66

    with served(tmp_path) as files:
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "answermill.rules.yaml")],
            "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{files}"]}]}],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
        options = (f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb")
        listening = f"--web.listen-address=127.0.0.1:{port}"
        with subprocess.Popen([prometheus, *options, listening], stderr=subprocess.DEVNULL) as process:
            try:
                (alert,) = alerts(port)
            finally:
                process.terminate()
    assert alert["labels"] == {
        **{"alertname": "AnswermillFailed", "severity": "page"},
        **{"exported_job": str(job), "job": "node", "instance": f"127.0.0.1:{files}"},
    }
    assert alert["annotations"]["summary"] == f"{job} ended with 66" and alert["state"] == "firing"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def alerts(port: int) -> list[dict[str, dict[str, str]]]:
    """The alerts of a Prometheus, as soon as there are some."""
    for _ in range(120):
        try:
            with urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=10) as answer:
                if firing := json.load(answer)["data"]["alerts"]:
                    return list(firing)
        except URLError:
            pass
        time.sleep(1)
    raise AssertionError("no alert within two minutes")
