"""`answermill clean`: what killed commands have left goes; what a manifest names, or a stopped step goes on with, stays."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from pathlib import Path

import pytest

from pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS
from pipelines.execution.monitoring.live import RUNNING
from pipelines.execution.step import WORK
from tests.pipelines.verify.test_verify import call, files

PART = "scored/part-00077-abcdef12.parquet"
FORMER = f".labels.{'0' * 32}.former"


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A run in which rerank was stopped: its parts are there, and of one unit the report."""
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    for name in ("scored", "answers"):
        (run / name / "_manifest.json").unlink()
    return run


def write(run: Path, *names: str) -> None:
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("?")


def test_a_sound_run_has_nothing_left_over(small_run: Path, capsys) -> None:
    before = files(small_run)
    assert call("clean", small_run, "--yes") == 0
    assert capsys.readouterr().out == "cleaned    0 leftovers, 0.0 MB\n" and files(small_run) == before


def test_leftovers_are_listed_and_removed_and_nothing_else(small_run: Path, tmp_path: Path, capsys) -> None:
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    sound = files(run)
    write(run, PART, "passages/.part-00001.0.tmp", f"{WORK}/index-01234567/fingerprint", f"{FORMER}/rejects/x", "notes.txt")
    write(run, f"shards/00007-of-00009-abcdef12/{PART}")
    left = files(run)
    assert call("clean", run) == 0
    listed = capsys.readouterr().out
    assert files(run) == left
    for line in (
        f"leftover   {PART}  (no manifest names it)",
        "leftover   passages/.part-00001.0.tmp  (half-written)",
        f"leftover   {WORK}/index-01234567  (index is complete)",
        f"leftover   {FORMER}  (labels has taken its place)",
        "leftover   shards/00007-of-00009-abcdef12  (no manifest names it)",
    ):
        assert f"{line}\n" in listed
    assert f"clean      5 leftovers, 0.0 MB; `answermill clean {run} --yes` removes them\n" in listed
    assert call("clean", run, "--yes") == 0
    assert files(run) == sound | {"notes.txt": b"?"}
    assert call("verify", run) == 0


def test_what_a_stopped_step_goes_on_with_stays(run: Path) -> None:
    kept = next((run / "scored").glob("part-00000*"))
    folder = run / WORK / "rerank-01234567"
    folder.mkdir(parents=True)
    from pipelines.execution.manifests.reports import Report, Reports
    from pipelines.execution.parquet_folder import Part

    Reports(folder, run).write(Report(0, {"scored": (Part(kept.name, 1, 1, "0" * 64),)}))
    write(run, PART)
    assert call("clean", run, "--yes") == 0
    assert [path.name for path in (run / "scored").iterdir()] == [kept.name] and list(folder.iterdir())


def test_a_former_folder_that_nothing_has_replaced_stays(run: Path) -> None:
    (run / "labels").rename(run / FORMER)
    assert call("clean", run, "--yes") == 0
    assert (run / FORMER).is_dir()


def running(run: Path, **values: object) -> None:
    now = time.time()
    state = {"host": platform.node(), "user": "u", "pid": os.getpid(), "began": now, "seen": now, "every_s": 3.0}
    (run / RUNNING).write_text(json.dumps(state | values))


def test_a_run_that_a_command_works_on_is_left_alone(run: Path, capsys) -> None:
    running(run)
    write(run, PART)
    assert call("clean", run, "--yes") == OUTPUT_EXISTS
    assert "a command works here (pid" in capsys.readouterr().err and (run / PART).exists()


@pytest.mark.parametrize("values", [{"pid": 2**22 + 1}, {"host": "elsewhere", "seen": time.time() - 3_600}])
def test_of_a_process_that_is_gone_the_file_goes_too(run: Path, capsys, values: dict[str, object]) -> None:
    running(run, step="rerank", **values)
    assert call("status", run) == 0
    assert capsys.readouterr().out.startswith("stale: pid ")
    assert call("clean", run, "--yes") == 0
    assert not (run / RUNNING).exists()
    assert call("status", run) == 0
    assert capsys.readouterr().out.splitlines()[-1]


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert call("clean", tmp_path / "nowhere") == INPUT_MISSING
