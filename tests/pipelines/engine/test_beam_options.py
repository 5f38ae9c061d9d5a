from __future__ import annotations

from importlib.metadata import version

import pytest

from answermill.pipelines.engine.beam_options import check_options
from answermill.pipelines.errors import USAGE, JobError

TRIED = ("2.77",)
"""Releases of Beam with which the options that it knows were read; add one when the other tests here pass
with it."""
JOB_SERVERS = (
    "--faster_copy",
    "--object_reuse",
    "--execution_mode_for_batch=BATCH_FORCED",
    "--number_of_execution_retries",
    "2",
)
"""Options of Flink's job server that Beam's Python side does not know."""


@pytest.mark.parametrize("runner", [(), ("--runner=DirectRunner",), ("--runner=FnApiRunner",)])
def test_a_runner_in_this_process_has_no_option_that_beam_does_not_know(runner):
    with pytest.raises(
        JobError, match="Beam has no option --object_reuse; arguments after -- are passed to Beam"
    ) as e:
        check_options([*runner, "--object_reuse"])
    assert e.value.code == USAGE


@pytest.mark.parametrize("runner", ["FlinkRunner", "SparkRunner", "PortableRunner"])
def test_options_that_only_a_job_server_knows_are_left_to_it(runner):
    check_options([f"--runner={runner}", *JOB_SERVERS])


def test_a_slip_in_an_option_is_refused_for_every_runner():
    with pytest.raises(JobError, match=r"Beam has no option --flink_mastr=x; is --flink_master meant\?") as e:
        check_options(["--runner=FlinkRunner", "--flink_mastr=x"])
    assert e.value.code == USAGE
    # Flink's, and near to one of Beam's.
    check_options(["--runner=FlinkRunner", "--max_cache_memory_usage_mb_class=x"])


def test_options_of_all_runners_are_known_and_each_only_by_its_whole_name():
    check_options(
        [
            "--runner=FlinkRunner",
            "--flink_master=localhost:8081",
            "--environment_type=LOOPBACK",
            "--parallelism=2",
        ]
    )
    check_options(["--runner=DataflowRunner", "--project=x", "--region=y", "--temp_location=gs://z"])

    check_options([])
    with pytest.raises(JobError):
        check_options(["--flink_mast=localhost:8081"])
    with pytest.raises(JobError):
        check_options(["--runner=FlinkRunner", "--flink_mast=localhost:8081"])


def test_the_private_method_of_beam_was_tried_with_this_release():
    assert version("apache-beam").rpartition(".")[0] in TRIED


@pytest.mark.parametrize("place", ["a:50000,b:50000", "a:50000 b:50000", "a"])
def test_workers_are_at_one_address(place):
    options = ["--environment_type=EXTERNAL", f"--environment_config={place}"]
    for runner in ([], ["--runner=PortableRunner"]):
        with pytest.raises(JobError, match="give one HOST:PORT") as e:
            check_options([*runner, *options])
        assert e.value.code == USAGE
    check_options(["--environment_type=EXTERNAL", "--environment_config=localhost:50000"])
    check_options(["--environment_type=PROCESS", '--environment_config={"command":"a,b"}'])
