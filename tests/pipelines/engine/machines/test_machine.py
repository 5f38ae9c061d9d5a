"""Machines share a run: one leads, the others do their share, and kills leave the bytes of one machine;
another job is refused with a sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.remote import Remote
from answermill.files.store import remove_tree
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.machines.machine import Machine, machines_at, together
from answermill.pipelines.engine.machines.members import MACHINES, SharedBlock, states
from answermill.pipelines.engine.machines.terms import Leader
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, UNAVAILABLE, USAGE, JobError
from answermill.pipelines.look.verify.leftovers import _of_command
from answermill.pipelines.revision import revision
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.steps.chain import run_steps
from answermill.schemas.corpus import Question
from benchmarks import parts
from testing.engines import ROOT, digests
from testing.harness import processes
from testing.object_store import ObjectStore
from tests.made_steps import made_step
from tests.pipelines.engine.machines.test_members import Other
from tests.pipelines.engine.test_worker_pool import STEPS, in_process, job

__all__ = ["in_process", "job"]  # fixtures
JOB = Job.model_validate({"rerank": {"stages": [{"reranker": "overlap", "keep": 3}]}})
PATIENCE_S = 240.0


def leads(run: Path, job: Job = JOB, term: int = 1, other: str = "") -> Other:
    """Another machine that leads the run of the job."""
    machine = Other(run, f"leader-of-{term}", lapse_s=1e9)
    settings = job.model_dump(mode="json", exclude={"workers"})
    leader = Leader(machine.state.name, str(run), other or revision(), settings)
    file = run / MACHINES / f"leader-{term:05d}.json"
    file.write_text(json.dumps(asdict(leader)), encoding="utf-8")
    return machine


def opens(other: Other, block: SharedBlock | None) -> None:
    other.state = replace(other.state, block=block, doing="rerank")
    other.beat()


def test_the_first_machine_leads_and_leaves_nothing_but_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    machine = Machine(run, JOB)
    assert list(together(machine, JOB, lambda: iter(["a line"]))) == ["a line"]
    assert machine.has_led and not machine.has_followed
    assert list(run.iterdir()) == []


def test_the_machine_that_leads_removes_what_late_ones_left_of_complete_steps(
    small_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    late, begun = run / WORK / "index-0123abcd", run / WORK / "collect-0123abcd"
    for folder in (late, begun):
        (folder / "values-late").mkdir(parents=True)
    assert list(together(Machine(run, JOB), JOB, lambda: iter(()))) == []
    assert not late.exists() and begun.exists()


def test_a_command_that_does_not_share_is_kept_out_and_keeps_out(tmp_path: Path) -> None:
    with Machine(tmp_path, JOB), Machine(tmp_path / "other", JOB):
        with pytest.raises(JobError, match="another process is writing here") as e, claimed(tmp_path):
            pass
        assert e.value.code == OUTPUT_EXISTS
    with (
        claimed(tmp_path),
        pytest.raises(JobError, match=r"that does not share the run; wait until it ends"),
        Machine(tmp_path, JOB),
    ):
        pass


def test_another_job_or_revision_than_that_of_the_machine_that_leads_is_refused(tmp_path: Path) -> None:
    other = JOB.model_copy(
        update={
            "rerank": Job.model_validate({"rerank": {"stages": [{"reranker": "overlap", "keep": 5}]}}).rerank
        }
    )
    leads(tmp_path, other)
    with pytest.raises(JobError, match=r"leads another job there: .*keep = 5 there, 3 here; give all") as e:
        list(together(Machine(tmp_path, JOB), JOB, lambda: iter(())))
    assert e.value.code == OUTPUT_EXISTS

    leads(tmp_path, JOB, other="0000")
    with pytest.raises(JobError, match=r"with revision 0000 of answermill, this machine has") as e:
        list(together(Machine(tmp_path, JOB), JOB, lambda: iter(())))
    assert e.value.code == UNAVAILABLE


def test_each_machine_may_have_workers_of_its_own(tmp_path: Path) -> None:
    workers = JOB.workers.model_copy(update={"processes": 7})
    other = leads(tmp_path, JOB.model_copy(update={"workers": workers}))
    other.state = replace(other.state, is_over=True)
    other.beat()
    assert list(together(Machine(tmp_path, JOB), JOB, lambda: iter(()))) == [
        "shared     0 units done by this machine; the run is complete"
    ]


def test_other_inputs_than_those_of_the_machine_that_leads_are_refused(
    job: Job, in_process: Path, tmp_path: Path
) -> None:
    other = leads(tmp_path, job)
    opens(other, SharedBlock("ingest", "ingest", "_work/ingest-00000000", other.state.name, 1, 1))
    with pytest.raises(
        JobError, match=r"works in _work/ingest-00000000, this one would in _work/ingest-"
    ) as e:
        list(run_steps(job, tmp_path, STEPS, (), machine=Machine(tmp_path, job)))
    assert e.value.code == OUTPUT_EXISTS


def test_an_error_of_the_run_ends_every_machine(tmp_path: Path) -> None:
    other, errors = leads(tmp_path), list[JobError]()

    def follow() -> None:
        try:
            list(together(Machine(tmp_path, JOB), JOB, lambda: iter(())))
        except JobError as e:
            errors.append(e)

    thread = threading.Thread(target=follow)
    thread.start()
    until = time.monotonic() + PATIENCE_S
    while len(states(tmp_path)[0]) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    ended = {"message": "too many rejects", "code": BAD_DATA}
    (tmp_path / MACHINES / "ended-00001.json").write_text(json.dumps(ended), encoding="utf-8")
    other.end()
    thread.join(PATIENCE_S)
    assert [(str(e), e.code) for e in errors] == [("too many rejects", BAD_DATA)]

    def fails() -> Iterator[str]:
        raise JobError("no page", BAD_DATA)
        yield

    with pytest.raises(JobError, match="no page"):  # typed again, the command begins another term
        list(together(Machine(tmp_path, JOB), JOB, fails))
    assert json.loads((tmp_path / MACHINES / "ended-00002.json").read_text())["message"] == "no page"


def test_a_machine_that_was_held_up_while_it_led_commits_nothing_and_follows(tmp_path: Path) -> None:
    step = made_step(tmp_path, "rerank", {"rows": Question})

    def lead() -> Iterator[str]:
        yield "begins"
        other = leads(tmp_path, term=2)
        other.state = replace(other.state, is_over=True)
        other.beat()
        Commit(step).begin()
        yield "goes on"

    machine = Machine(tmp_path, JOB)
    assert list(together(machine, JOB, lead))[0::2] == ["begins"]
    assert machine.has_followed and not machine.has_led
    assert not step.work.exists()


def test_status_names_the_machines(tmp_path: Path) -> None:
    opens(leads(tmp_path), None)
    Other(tmp_path, "second")
    assert list(machines_at(tmp_path)) == [
        "machine: pid 1 of anna on node, leads, at rerank; 0 units done",
        "machine: pid 1 of anna on node, follows, at nothing now; 0 units done",
    ]
    assert list(machines_at(tmp_path / "none")) == []


def test_what_killed_machines_left_is_left_over_and_goes_with_the_next_command(tmp_path: Path) -> None:
    leads(tmp_path)
    (leftover,) = _of_command(tmp_path, None)
    assert (leftover.path, leftover.why) == (tmp_path / MACHINES, "no machine shares the run any more")
    assert list(run_steps(JOB, tmp_path, [], ())) == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--redo", "rerank"], "--join does not go with --redo and --verify"),
        (["--lapse", "0.5"], "--lapse 0.5: give the seconds after which a machine is lost, 1 or more"),
        (["--", "--runner=FlinkRunner"], "--join is for machines without an engine, so leave out"),
    ],
)
def test_options_that_do_not_go_with_sharing_are_refused(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.toml").write_text('[[rerank.stages]]\nreranker = "overlap"\n', encoding="utf-8")
    with pytest.raises(SystemExit) as e:
        main(["run", str(tmp_path / "job.toml"), "--out", str(tmp_path / "run"), "--join", *more])
    assert e.value.code == USAGE and message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_five_machines_with_clocks_apart_of_which_two_are_killed_write_the_bytes_of_one(
    tmp_path: Path,
) -> None:
    with processes(1) as pool:  # which has no thread, and no JVM
        result = pool.submit(parts.measure, tmp_path, 2).result()
    assert (result["machines"], result["kills"], result["mismatches"]) == (5, 2, 0)
    assert result["blocks_shared"] > 4 and result["hours_apart"] == 28


@pytest.mark.nightly
def test_machines_share_a_run_in_an_object_store_and_one_is_killed_there(
    job: Job, in_process: Path, s3: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "job.json").write_text(job.model_dump_json(exclude_none=True), encoding="utf-8")
    run = s3.folder("shared-by-machines")
    command = [sys.executable, "-c", SHARE, str(tmp_path / "job.json"), str(run), str(job.folder)]
    environment = {**os.environ, **s3.environment, "PYTHONPATH": str(ROOT)}

    def start(number: int) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{number}.log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    machines = [start(number) for number in range(3)]
    try:
        leader = wait_for_leader(run, machines)
        os.kill(leader, signal.SIGKILL)
        codes = [machine.wait(PATIENCE_S) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()

    logs = [(tmp_path / f"{number}.log").read_text(encoding="utf-8") for number in range(3)]
    assert sorted(codes) == [-signal.SIGKILL, 0, 0], logs
    assert sum("leads now" in log for log in logs) == 1
    assert digests(run) == digests(in_process)
    assert not (run / MACHINES).exists()
    remove_tree(run)


SHARE = """
import json, sys
from pathlib import Path
from answermill.files.remote import as_path
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.machines import members
from answermill.pipelines.engine.machines.machine import Machine
from answermill.pipelines.steps.chain import run_steps

members.this_place = lambda: ""
members.POLL_S_IN_STORE = 0.5
job, run = Job.model_validate(json.loads(Path(sys.argv[1]).read_text())), as_path(sys.argv[2])
job._folder = Path(sys.argv[3])
steps = ("ingest", "index", "retrieve", "rerank")
for line in run_steps(job, run, steps, (), machine=Machine(run, job, 6.0)):
    print(line, flush=True)
"""
"""The steps of a job, shared by a process that knows the others by their files alone."""


def wait_for_leader(run: Remote, machines: list[subprocess.Popen[bytes]]) -> int:
    """The process of the machine that leads, when all are there and some unit is done."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and all(machine.poll() is None for machine in machines):
        there, term = states(run)
        if term and len(there) == len(machines) and any(state.units for state in there.values()):
            leader = json.loads((run / MACHINES / f"leader-{term:05d}.json").read_text())["machine"]
            return there[leader].pid
        time.sleep(0.5)
    raise AssertionError(f"machines ended, or did not begin: {[machine.poll() for machine in machines]}")
