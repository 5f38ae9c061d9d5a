from __future__ import annotations

from importlib.metadata import version

import pytest

from pipelines.errors import USAGE, JobError
from pipelines.execution.beam_options import check_options

TRIED = ("2.77",)
"""Releases of Beam with which the options that it knows were read; add one when the other tests here pass with it."""


def test_an_option_that_beam_does_not_know_is_refused():
    with pytest.raises(JobError, match="Beam has no option --flink_mastr=x; arguments after -- are passed to Beam") as e:
        check_options(["--runner=FlinkRunner", "--flink_mastr=x"])
    assert e.value.code == USAGE


def test_options_of_all_runners_are_known_and_each_only_by_its_whole_name():
    check_options(["--runner=FlinkRunner", "--flink_master=localhost:8081", "--environment_type=LOOPBACK", "--parallelism=2"])
    check_options(["--runner=DataflowRunner", "--project=x", "--region=y", "--temp_location=gs://z"])
    check_options([])
    with pytest.raises(JobError):
        check_options(["--flink_mast=localhost:8081"])


def test_the_private_method_of_beam_was_tried_with_this_release():
    assert version("apache-beam").rpartition(".")[0] in TRIED
