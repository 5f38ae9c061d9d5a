"""`status`: a row for each folder of a run, with its state."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from answermill.pipelines.cli import run_commands
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.look.status import status
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.live import RUNNING, Running
from answermill.pipelines.specs.index import INDEX
from answermill.pipelines.specs.ingest import INGEST, IngestCounts
from answermill.schemas.corpus import Rejected
from testing.command import call
from tests.pipelines.look.report.written_run import commit

REJECT = Rejected("web.warc.gz", 7, "", "https://a.example/", "too_short", "3 words")


def states(run: Path) -> dict[str, tuple[str, str]]:
    """Folder → its rows and state."""
    return {folder: (rows, state) for _, folder, rows, state in status(run)}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    commit(tmp_path, INGEST, {"rejects": [REJECT]}, IngestCounts(pages=1, rejected={"too_short": 1}))
    return tmp_path


def test_folders_are_complete_begun_or_not_there(run: Path) -> None:
    Commit(Step(run, INDEX, {}, {})).begin()
    state_of = states(run)
    assert state_of["rejects"] == ("1", "complete, 1 part") and state_of["documents"][0] == "0"
    assert state_of["shards"] == ("", "begun, 0 units done")
    assert state_of["scored"] == ("", "not there")


def test_a_damaged_file_and_manifest_are_rows_and_then_an_error(run: Path) -> None:
    next((run / "rejects").glob("part-*")).unlink()
    (run / "documents" / MANIFEST).write_text("{", encoding="utf-8")
    rows = []
    with pytest.raises(JobError, match=r"is damaged; .*ingest") as e:
        for row in status(run):
            rows.append(row)
    assert e.value.code == BAD_DATA
    state_of = {folder: state for _, folder, _, state in rows}
    assert state_of["rejects"].startswith("damaged: ") and "is missing" in state_of["rejects"]
    assert state_of["documents"] == f"damaged: {run / 'documents' / MANIFEST}"


def test_a_folder_is_a_run_once_a_command_works_there(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no run in") as e:
        list(status(tmp_path))
    assert e.value.code == INPUT_MISSING
    working = Running("node3", "anna", 17, began=0.0, seen=0.0, every_s=3.0)
    (tmp_path / RUNNING).write_text(json.dumps(asdict(working)), encoding="utf-8")
    assert {state for _, state in states(tmp_path).values()} == {"not there"}


def test_json_has_the_state_the_command_and_the_folders(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("status", run, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["state"], status["command"], status["damage"]) == ("complete", None, None)
    rejects = {"step": "ingest", "folder": "rejects", "rows": 1, "state": "complete, 1 part"}
    assert rejects in status["folders"]
    assert {"step": "index", "folder": "shards", "rows": None, "state": "not there"} in status["folders"]

    next((run / "rejects").glob("part-*")).unlink()
    assert call("status", run, "--json") == BAD_DATA
    status = json.loads(capsys.readouterr().out)
    assert "is damaged" in status["damage"]


def test_watch_looks_again_until_no_command_works_on_the_run(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    now = time.time()
    working = Running(platform.node(), "anna", os.getpid(), began=now, seen=now, every_s=3.0, step="rerank")
    (run / RUNNING).write_text(json.dumps(asdict(working)), encoding="utf-8")

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            (run / RUNNING).unlink()

    monkeypatch.setattr(run_commands.time, "sleep", wait)
    assert call("status", run, "--watch") == 0
    lines = capsys.readouterr().out.splitlines()
    assert looks == [run_commands.WATCH_S] * 2
    assert [line.partition(":")[0] for line in lines[:3]] == ["running", "running", "complete"]
    assert lines[3].split() == ["step", "folder", "rows", "state"]


def test_a_file_in_the_place_of_a_run_is_named_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.touch()
    for command in ("status", "verify", "clean", "report"):
        assert call(command, file) == INPUT_MISSING
        assert f"{file} is a file; give the folder of a run" in capsys.readouterr().err
