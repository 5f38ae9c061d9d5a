"""The small job by Flink on two machines that share an object store, and no disk: the same bytes as in this
process.

`make test-flink`. The machines are namespaces, which only root may make.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from answermill.pipelines.errors import UNAVAILABLE
from answermill.pipelines.revision import revision
from testing.engines import ROOT, EngineMissing, digests, other_revision
from testing.flink_machines import Cluster, flink_on_two_machines
from testing.machines import BUCKET, Machine
from tests.engines.small_job import words

JOB, RUN = f"s3://{BUCKET}/small/job.toml", f"s3://{BUCKET}/run"
REPORT = re.compile(rf'^(\S+) .*"PUT /{BUCKET}/run/_work/rerank-\w+/unit-\d+\.json', re.MULTILINE)
RESTARTED = "will be restarted to recover the failed task"
"""What the JobManager says when it begins tasks again."""
pytestmark = pytest.mark.engines


def put_job(cluster: Cluster, small_run: Path, scratch: Path) -> None:
    """The small job, its input, models and labels in the bucket, without its run."""
    shutil.copytree(small_run.parent, scratch, ignore=shutil.ignore_patterns("run"))
    job = scratch / "job.toml"
    encoder = json.dumps(str(small_run.parent / "encoder"))
    text = job.read_text(encoding="utf-8")
    assert encoder in text
    job.write_text(text.replace(encoder, '"encoder"'), encoding="utf-8")
    cluster.store.put(scratch, "small")


@pytest.fixture(scope="module")
def cluster(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with flink_on_two_machines() as cluster:
            put_job(cluster, small_run, tmp_path_factory.mktemp("job") / "small")
            yield cluster
    except EngineMissing as e:
        pytest.skip(str(e))


def start(cluster: Cluster, *more: str) -> subprocess.Popen[str]:
    command = cluster.machines[0].command([*words(JOB, RUN), *more, "--", *cluster.options()])
    environment = {**os.environ, **cluster.store.environment}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def written(cluster: Cluster, folder: Path) -> dict[str, str]:
    """The digests of the run in the bucket, by way of a copy in `folder`."""
    cluster.store.get("run", folder)
    return digests(folder)


@pytest.fixture(scope="module")
def finished(cluster: Cluster) -> Cluster:
    """After a whole run."""
    running = start(cluster)
    _, err = running.communicate()
    assert running.returncode == 0, err
    return cluster


def test_two_machines_without_a_disk_in_common_give_the_same_bytes(
    finished: Cluster, in_process: Path, tmp_path: Path
) -> None:
    assert written(finished, tmp_path / "copy") == digests(in_process)
    reporters = set(re.findall(rf'^(\S+) .*"PUT /{BUCKET}/run/_work/', finished.store.log(), re.MULTILINE))
    assert {machine.address for machine in finished.machines} <= reporters


def machine_at_work(cluster: Cluster, running: subprocess.Popen[str]) -> Machine:
    """The machine that is at work on a block of questions when the other has reported its first."""
    before = len(REPORT.findall(cluster.store.log()))
    while running.poll() is None:
        if len(reports := REPORT.findall(cluster.store.log())[before:]) > 0:
            (machine,) = (machine for machine in cluster.machines if machine.address != reports[0])
            return machine
        time.sleep(0.05)
    pytest.fail(f"no unit has reported: {running.communicate()[1]}")


@pytest.mark.parametrize("victim", ["taskmanager", "pool"])
def test_what_dies_on_a_machine_costs_no_row(
    finished: Cluster, in_process: Path, tmp_path: Path, victim: str
) -> None:
    """A pool is started again, as a container is; of the TaskManagers one is enough."""
    restarts = finished.machines[0].log("jobmanager").count(RESTARTED)
    running = start(finished, "--redo", "rerank")
    machine = machine_at_work(finished, running)
    machine.kill(victim)
    if victim == "pool":
        machine.start_pool(finished.store.environment)
    _, err = running.communicate()
    assert running.returncode == 0, err
    assert finished.machines[0].log("jobmanager").count(RESTARTED) > restarts
    assert written(finished, tmp_path / "copy") == digests(in_process)
    if victim == "taskmanager":
        finished.start_task_manager(machine)


def test_machines_with_another_revision_are_refused(finished: Cluster, tmp_path: Path) -> None:
    packages = other_revision(ROOT / "out" / tmp_path.name)  # where the machines see it
    begun = len(finished.store.log())
    try:
        for machine in finished.machines:
            machine.kill("pool")
            machine.start_pool(finished.store.environment, packages)
        running = start(finished, "--redo", "rerank")
        _, err = running.communicate()
    finally:
        shutil.rmtree(packages)

    lines = [line for line in err.splitlines() if not line.startswith("{")]
    assert running.returncode == UNAVAILABLE, err
    assert len(lines) == 1 and f"of answermill, the command {revision()}: install" in lines[0], err
    assert "run/scored/" not in "".join(re.findall(r'"PUT (\S+)', finished.store.log()[begun:]))
