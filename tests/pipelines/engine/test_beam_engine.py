"""Where Beam's options lead to, and what a user meets there."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker

from answermill.pipelines.engine.beam_engine import BeamEngine, new_pipeline
from answermill.pipelines.engine.beam_errors import error_in
from answermill.pipelines.engine.protocol import Units
from answermill.pipelines.engine.runner import configure_logging, open_engine, refuse_wrong_options
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import UNAVAILABLE, USAGE, JobError
from answermill.pipelines.runs.step import MARK
from tests.made_steps import reports_of
from tests.pipelines.engine.test_local_engine import listening


class NoteSockets(UnitWork):
    def work(self, unit: int) -> None:
        (self._work_folder / f"sockets-{unit}").write_text(" ".join(listening(os.getpid())))


class NoteProcess(UnitWork):
    def work(self, unit: int) -> None:
        (self._work_folder / f"process-{os.getpid()}").touch()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The work folder of a step that has begun."""
    (tmp_path / MARK).touch()
    return tmp_path


def do_by(beam_options: Sequence[str], folder: Path) -> set[int]:
    """Do four units; returns the processes that did them."""
    with open_engine(beam_options, 1, 4, folder) as engine:
        engine.each("Work", Units.first(4), NoteProcess("rerank", folder))
    return {int(path.name.partition("-")[2]) for path in folder.glob("process-*")}


@pytest.mark.parametrize("name", ["DirectRunner", "FnApiRunner"])
def test_the_direct_runner_is_beam_s_in_this_process(name, begun):
    assert isinstance(new_pipeline([f"--runner={name}"]).runner, FnApiRunner)
    assert do_by([f"--runner={name}"], begun) == {os.getpid()}


def test_any_other_runner_is_beam_s_own():
    portable = new_pipeline(
        ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=LOOPBACK"]
    )
    assert type(portable.runner).__name__ == "PortableRunner"


def test_a_runner_that_beam_does_not_know_is_refused(begun):
    with pytest.raises(JobError, match=r"--runner=NoSuchRunner: .*NoSuchRunner") as e:
        new_pipeline(["--runner=NoSuchRunner"])
    assert e.value.code == USAGE


def test_no_pipeline_leaves_its_temporary_folder(
    tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    refuse_wrong_options(["--runner=DirectRunner"])
    do_by(["--runner=DirectRunner"], begun)
    with pytest.raises(KeyError), open_engine(["--runner=DirectRunner"], 1, 4, begun):
        raise KeyError("before the pipeline runs")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_graph_of_a_million_units_is_no_larger_than_one_of_ten(tmp_path):
    def graph_bytes(units: int) -> int:
        root = new_pipeline(())
        BeamEngine(root).each(
            "Work", Units.first(units, but=reports_of(tmp_path)), NoteProcess("rerank", tmp_path)
        )
        return len(root.to_runner_api().SerializeToString())

    few, many = graph_bytes(10), graph_bytes(1_000_000)
    assert many < few + 100 < 100_000


def test_a_job_server_that_cannot_be_fetched_is_one_line_with_what_to_give(begun):
    jar = "http://127.0.0.1:9/flink-job-server.jar"  # nothing listens there
    flink = ["--runner=FlinkRunner", "--flink_master=localhost:1", f"--flink_job_server_jar={jar}"]
    with pytest.raises(
        JobError, match=rf"job server {jar} cannot be fetched: .* --flink_job_server_jar"
    ) as e:
        do_by([*flink, f"--jar_cache_dir={begun}"], begun)
    assert e.value.code == UNAVAILABLE and "\n" not in str(e.value.args[0])


def test_a_job_server_s_jar_that_is_missing_is_named(begun):
    flink = [
        "--runner=FlinkRunner",
        "--flink_master=localhost:1",
        f"--flink_job_server_jar={begun}/absent.jar",
    ]
    with pytest.raises(JobError, match=r"/absent\.jar: no such file; ") as e:
        do_by(flink, begun)
    assert e.value.code == UNAVAILABLE


def test_a_job_server_that_does_not_start_is_one_line():
    error = error_in("Service failed to start up with error 1")
    assert str(error).startswith("Beam's job server ended with 1 before it could be asked; ")
    assert isinstance(error, JobError) and error.code == UNAVAILABLE


def test_no_line_says_that_a_job_server_starts_or_is_waited_for(capfd):
    configure_logging()
    new_pipeline(())
    logging.getLogger("apache_beam.utils.subprocess_server").warning("Really starting service")
    logging.warning("Waiting for grpc channel to be ready at %s.", "localhost:1")
    logging.warning("Discarding unparseable args: %s", ["--colour"])
    assert capfd.readouterr().err == "WARNING root: Discarding unparseable args: ['--colour']\n"


def test_without_a_runner_a_pool_s_workers_are_the_only_others():
    with pytest.raises(JobError, match="the only --environment_type is EXTERNAL") as e:
        new_pipeline(["--environment_type=DOCKER"])
    assert e.value.code == USAGE


@pytest.mark.skipif(
    not Path("/proc/net/tcp").is_file(), reason="needs /proc/net/tcp, which lists the sockets"
)
@pytest.mark.parametrize(
    ("options", "address"), [((), "127.0.0.1"), (("--listen_address=0.0.0.0",), "0.0.0.0")]
)
def test_what_waits_for_workers_listens_on_loopback_alone_unless_told_otherwise(options, address, begun):
    before = listening(os.getpid())  # a server of other tests
    with open_engine(["--direct_running_mode=multi_threading", *options], 1, 1, begun) as engine:
        engine.each("Work", Units.first(1), NoteSockets("rerank", begun))
    opened = set((begun / "sockets-0").read_text().split()) - before
    expected = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"
    assert {place.partition(":")[0] for place in opened} == {expected}


def test_threads_never_send_by_the_clock_which_cuts_elements_in_two(monkeypatch, begun):
    """Beam's `SdkHarness` is what sends; its default is a second. Torn elements have ended runs, and taken
    all memory."""
    limits = []

    class Noted(sdk_worker.SdkHarness):
        def __init__(self, *arguments, data_buffer_time_limit_ms, **options):
            limits.append(data_buffer_time_limit_ms)
            super().__init__(*arguments, data_buffer_time_limit_ms=data_buffer_time_limit_ms, **options)

    monkeypatch.setattr(sdk_worker, "SdkHarness", Noted)
    assert do_by(["--direct_running_mode=multi_threading", "--direct_num_workers=2"], begun) == {os.getpid()}
    assert len(limits) == 2 and min(limits) > timedelta(days=30) / timedelta(milliseconds=1)


def test_where_beam_cannot_be_loaded_logging_is_what_it_was(monkeypatch, begun):
    monkeypatch.setitem(sys.modules, "answermill.pipelines.engine.beam_engine", None)
    before = logging.root.manager.disable
    with pytest.raises(ImportError), open_engine(["--runner=DirectRunner"], 1, 1, begun):
        pass
    assert logging.root.manager.disable == before < logging.WARNING
