"""Workers of a pool that was started elsewhere: in another working directory, or where another folder has the
run's name."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread

import apache_beam as beam
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine import beam_engine
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.errors import BAD_DATA, IO, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.parquet_folder import read_manifest
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.rerank.rerank import step_of
from testing.tiny import write_dense

STEPS = ("ingest", "index", "retrieve", "rerank")
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("job")
    for file in range(2):
        pages = [
            {"id": f"d{file}-{n}", "text": f"{' '.join(SUBJECTS[: n % 6 + 1])} number {n}.", "title": ""}
            for n in range(file, 20, 2)
        ]
        (folder / f"pages-{file}.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))

    questions = [
        {"question_id": f"q{n}", "text": f"Which {subject} is it?"} for n, subject in enumerate(SUBJECTS)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    job = Job.model_validate(
        {
            "ingest": {"input": [str(folder / "*.jsonl")], "min_words": 1},
            "index": {"shards": 2, "encoder": str(write_dense(folder / "encoder"))},
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": 5, "block": 3},
            "rerank": {"stages": [{"reranker": "overlap"}]},
        }
    )

    # As if it had been read from a file there: the names of its pages are relative to it.
    job._folder = folder
    return job


@pytest.fixture(scope="module")
def in_process(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    list(run_steps(job, run, STEPS, ()))
    return run


@contextmanager
def pool(folder: Path, before: str = "", island: bool = False) -> Iterator[Sequence[str]]:
    """The options for a pool of workers whose working directory is `folder`; `before`: what a shell does
    there first.

    An island has file systems of its own: what `before` mounts is seen by its workers alone.
    """
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    command = (
        f"{before}exec {sys.executable} -m apache_beam.runners.worker.worker_pool_main --service_port={port}"
    )
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # the pool starts `python`
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    started = subprocess.Popen(
        [*(["unshare", "-m"] if island else []), "sh", "-c", command],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )

    assert started.stderr is not None
    with started:
        try:
            assert any("Started worker pool" in line for line in started.stderr)
            Thread(target=started.stderr.read, daemon=True).start()  # a full pipe would stop the workers
            yield "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"
        finally:
            started.terminate()


def by_two(job: Job) -> Job:
    """The job with two worker processes."""
    return job.model_copy(update={"workers": job.workers.model_copy(update={"processes": 2})})


@pytest.mark.nightly
def test_workers_in_another_working_directory_write_into_a_run_that_is_named_relative_to_ours(
    job: Job, in_process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    with pool(tmp_path / "elsewhere") as options:
        list(run_steps(by_two(job), Path("run"), ["ingest"], options))
        for folder in ("shards", "questions", "retrieved"):
            shutil.copytree(in_process / folder, tmp_path / "run" / folder)
        list(run_steps(by_two(job), Path("run"), ["rerank"], options))

    for folder in ("documents", "passages", "scored"):
        written, wanted = read_manifest(tmp_path / "run" / folder), read_manifest(in_process / folder)
        assert written is not None and wanted is not None
        assert written.parts == wanted.parts

    assert (tmp_path / "run/answers.jsonl").read_bytes() == (in_process / "answers.jsonl").read_bytes()
    assert not any((tmp_path / "elsewhere").iterdir())


def may_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount file systems")
@pytest.mark.nightly
@pytest.mark.parametrize("sees", ["nothing", "a copy"])
def test_workers_that_see_another_folder_end_the_step_before_anything_is_committed(
    job: Job, in_process: Path, tmp_path: Path, sees: str
) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    shutil.copytree(in_process, run)
    shutil.rmtree(run / "scored")
    (run / "answers.jsonl").unlink()
    Commit(step_of(job, run)).begin()
    shutil.copytree(run, copy)
    mount = f"mount -t tmpfs none {run} && "
    if sees == "a copy":
        mount += f"cp -r {copy}/. {run} && "
    with pool(tmp_path, mount, island=True) as options, pytest.raises(JobError) as e:
        list(run_steps(by_two(job), run, ["rerank"], options))
    assert e.value.code == IO

    assert str(run) in str(e.value)
    assert (
        str(e.value).startswith("rerank: ")
        if sees == "nothing"
        else "units 0, 1 of rerank did not report" in str(e.value)
    )
    assert not (run / "scored" / "_manifest.json").exists()
    assert not (run / "answers.jsonl").exists()
    list(run_steps(job, run, ["rerank"], ()))  # the same command where workers see the folder

    assert (run / "answers.jsonl").read_bytes() == (in_process / "answers.jsonl").read_bytes()


@contextmanager
def job_service(folder: Path) -> Iterator[Sequence[str]]:
    """The options for Beam's own job service, which sends the work back to this process."""
    port = folder / "port"
    command = [
        sys.executable,
        "-m",
        "apache_beam.runners.portability.local_job_service_main",
        "--port_file",
        str(port),
    ]

    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        try:
            while not port.exists():
                assert started.poll() is None, "Beam's job service has ended"
                time.sleep(0.05)
            yield (
                "--runner=PortableRunner",
                f"--job_endpoint=localhost:{port.read_text()}",
                "--environment_type=LOOPBACK",
            )
        finally:
            started.terminate()


@pytest.mark.parametrize(
    "engine",
    [
        "this process",
        "Beam in this process",
        *(
            pytest.param(engine, marks=pytest.mark.nightly)
            for engine in ("two processes", "a pool", "a job service")
        ),
    ],
)
def test_an_error_of_a_unit_is_one_line_with_its_exit_code_whatever_runs_it(
    job: Job,
    in_process: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    engine: str,
) -> None:
    shutil.copytree(in_process, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "scored")
    part = sorted((tmp_path / "run" / "retrieved").glob("part-00001-*"))[0]
    part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    options: Sequence[str] = ("--runner=DirectRunner",) if engine == "Beam in this process" else ()

    with ExitStack() as stack:
        if engine == "a pool":
            options = stack.enter_context(pool(tmp_path))
        if engine == "a job service":
            options = stack.enter_context(job_service(tmp_path))
        configure_logging()
        with pytest.raises(JobError) as e:
            list(
                run_steps(
                    by_two(job) if engine == "two processes" else job, tmp_path / "run", ["rerank"], options
                )
            )

    assert e.value.code == BAD_DATA
    assert str(e.value).startswith("rerank, unit 1: ")
    assert part.name in str(e.value) and "while running" not in str(e.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "engine", ["Beam in this process", pytest.param("a job service", marks=pytest.mark.nightly)]
)
def test_beam_s_counters_are_the_counts_of_the_manifests(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    roots: list[beam.Pipeline] = []
    new_pipeline = beam_engine.new_pipeline

    def noted(beam_options: Sequence[str], *size: int) -> beam.Pipeline:
        pipeline = new_pipeline(beam_options, *size)
        if size:  # without one it is made for its options' sake, and does not run
            roots.append(pipeline)
        return pipeline

    monkeypatch.setattr(beam_engine, "new_pipeline", noted)
    options: Sequence[str] = ("--runner=DirectRunner",)

    with ExitStack() as stack:
        if engine == "a job service":
            options = stack.enter_context(job_service(tmp_path))
        list(run_steps(job, tmp_path / "run", STEPS, options))
        metrics = [root.result.metrics().query() for root in roots]

    counters: Counter[tuple[str, str]] = Counter()
    for each in (each for query in metrics for each in query["counters"]):
        # Of the job service, 0 is None.
        counters[each.key.metric.namespace, each.key.metric.name] += each.result or 0

    run = Run.open(tmp_path / "run")
    for spec in (INGEST, INDEX, RETRIEVE, RERANK):
        step, counts = spec.name, dict(run.counts(spec).flat())
        # Retrieve's are those of its passes, which have more counts.
        step_counters = Counter[str]()
        for (namespace, name), n in counters.items():
            if namespace == f"answermill.{step}" or namespace.startswith(f"answermill.{step}/"):
                step_counters.update({name: n} if step != "retrieve" or name in counts else {})
        by_command = ("questions_given", "rejected.") if step == "retrieve" else ()
        expected = {name: n for name, n in counts.items() if not name.startswith(by_command)}
        assert +step_counters == +Counter(expected)
        assert len(step_counters) >= 2

    units: Counter[tuple[str, str]] = Counter()
    for each in (
        each
        for query in metrics
        for each in query["distributions"]
        if each.key.metric.name == "unit_milliseconds"
    ):
        units[each.key.step.partition("/")[0], each.key.metric.namespace] += each.result.count

    # Input files.
    assert units["Parse pages", "answermill.ingest"] == units["Cut passages", "answermill.ingest"] == 3
    assert units["Work", "answermill.index"] == 2  # shards
    for label, work in (("Count words", "words"), ("Search", "hits")):
        assert units[label, f"answermill.retrieve/{work}"] == 2  # shards
    for label, work in (("Encode questions", "vectors"), ("Write blocks", "lists")):
        assert units[label, f"answermill.retrieve/{work}"] == 1  # groups of questions
    assert units["Work", "answermill.rerank"] == 2  # blocks
