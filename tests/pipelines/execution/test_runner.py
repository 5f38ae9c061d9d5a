from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from pipelines.execution.progress import progress
from pipelines.execution.runner import new_pipeline, pipeline


def process_ids(processes: int) -> set[int]:
    with tempfile.TemporaryDirectory() as folder:
        with pipeline((), processes, units=4) as root:
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
    made = new_pipeline(["--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=LOOPBACK"])
    assert type(made.runner).__name__ == "PortableRunner"


def test_one_process_is_this_one():
    assert process_ids(1) == {os.getpid()}


def test_several_processes_are_others():
    assert os.getpid() not in process_ids(2)


def test_progress_tells_units_done_and_left_as_json_lines(capsys):
    told_once, done = threading.Event(), iter([0, 3])

    def units_done() -> int:
        if (number := next(done, None)) is None:
            told_once.set()
        return 4 if number is None else number

    with progress("index", 9, units_done, interval_s=0.01):
        assert told_once.wait(60)
    told = json.loads(capsys.readouterr().err.splitlines()[0])
    assert told["step"] == "index"
    assert (told["units_done"], told["units"]) == (3, 9)
    assert told["left_s"] >= 0
