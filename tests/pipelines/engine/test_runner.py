from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker

from answermill.pipelines.engine.runner import configure_logging, new_pipeline, pipeline
from answermill.pipelines.engine.worker_errors import error_in
from answermill.pipelines.errors import UNAVAILABLE, USAGE, JobError


def process_ids(processes: int, beam_options: Sequence[str] = ()) -> set[int]:
    with tempfile.TemporaryDirectory() as folder:
        with pipeline(beam_options, processes, units=4) as root:
            _ = root | beam.Create(range(4)) | beam.Reshuffle() | beam.ParDo(NoteProcess(folder))
        return {int(path.name.partition("-")[2]) for path in Path(folder).iterdir()}


class NoteProcess(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, number: int) -> None:
        (Path(self._folder) / f"{number}-{os.getpid()}").touch()


@pytest.mark.parametrize("name", ["DirectRunner", "FnApiRunner"])
def test_the_direct_runner_is_the_one_in_this_process(name):
    assert isinstance(new_pipeline([f"--runner={name}"]).runner, FnApiRunner)
    assert isinstance(new_pipeline([]).runner, FnApiRunner)


def test_any_other_runner_is_beam_s_own():
    portable = new_pipeline(["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=LOOPBACK"])
    assert type(portable.runner).__name__ == "PortableRunner"


def test_a_job_server_that_cannot_be_fetched_is_one_line_with_what_to_give(tmp_path):
    jar = "http://127.0.0.1:9/flink-job-server.jar"  # nothing listens there
    flink = ["--runner=FlinkRunner", "--flink_master=localhost:1", f"--flink_job_server_jar={jar}"]
    with (
        pytest.raises(JobError, match=rf"job server {jar} cannot be fetched: .* --flink_job_server_jar") as e,
        pipeline([*flink, f"--jar_cache_dir={tmp_path}"]) as root,
    ):
        _ = root | beam.Create([1])
    assert e.value.code == UNAVAILABLE and "\n" not in str(e.value.args[0])


def test_a_job_server_s_jar_that_is_missing_is_named(tmp_path):
    flink = ["--runner=FlinkRunner", "--flink_master=localhost:1", f"--flink_job_server_jar={tmp_path}/absent.jar"]
    with pytest.raises(JobError, match=r"/absent\.jar: no such file; ") as e, pipeline(flink) as root:
        _ = root | beam.Create([1])
    assert e.value.code == UNAVAILABLE


def test_a_job_server_that_does_not_start_is_one_line():
    error = error_in("Service failed to start up with error 1")
    assert str(error).startswith("Beam's job server ended with 1 before it could be asked; ")
    assert isinstance(error, JobError) and error.code == UNAVAILABLE


def test_no_line_says_that_a_job_server_starts_or_is_waited_for(capfd):
    configure_logging()
    logging.getLogger("apache_beam.utils.subprocess_server").warning("Really starting service")
    logging.warning("Waiting for grpc channel to be ready at %s.", "localhost:1")
    logging.warning("Discarding unparseable args: %s", ["--colour"])
    assert capfd.readouterr().err == "WARNING root: Discarding unparseable args: ['--colour']\n"


def test_without_a_runner_a_pool_s_workers_are_the_only_others():
    with pytest.raises(JobError, match="the only --environment_type is EXTERNAL") as e:
        new_pipeline(["--environment_type=DOCKER"])
    assert e.value.code == USAGE


def test_one_process_is_this_one():
    assert process_ids(1) == {os.getpid()}


def test_several_processes_are_others():
    assert os.getpid() not in process_ids(2)


def test_threads_never_send_by_the_clock_which_cuts_elements_in_two(monkeypatch):
    """Beam's `SdkHarness` is what sends; its default is a second. Torn elements have ended runs, and taken all memory."""
    limits = []

    class Noted(sdk_worker.SdkHarness):
        def __init__(self, *arguments, data_buffer_time_limit_ms, **options):
            limits.append(data_buffer_time_limit_ms)
            super().__init__(*arguments, data_buffer_time_limit_ms=data_buffer_time_limit_ms, **options)

    monkeypatch.setattr(sdk_worker, "SdkHarness", Noted)
    assert process_ids(1, ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]) == {os.getpid()}
    assert len(limits) == 2 and min(limits) > timedelta(days=30) / timedelta(milliseconds=1)
