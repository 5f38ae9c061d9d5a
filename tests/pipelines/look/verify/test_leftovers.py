"""`answermill clean`: what killed commands have left goes; what a manifest names, or a stopped step goes on
with, stays."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from pathlib import Path

import pytest

from answermill.files.store import put, remove_tree
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS
from answermill.pipelines.look.verify.leftovers import leftovers
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.runs.watch.live import RUNNING
from answermill.pipelines.specs.rerank import RerankCounts
from answermill.pipelines.steps.chain import run_steps
from testing.command import call
from testing.object_store import ObjectStore
from tests.pipelines.look.verify.test_verify import files

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


def test_a_sound_run_has_nothing_left_over(small_run: Path, tmp_path: Path, capsys) -> None:
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    before = files(run)
    assert call("clean", run, "--yes") == 0
    assert capsys.readouterr().out == "cleaned    0 leftovers, 0.0 MB\n" and files(run) == before


def test_leftovers_are_listed_and_removed_and_nothing_else(small_run: Path, tmp_path: Path, capsys) -> None:
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    sound = files(run)
    write(
        run,
        PART,
        "passages/.part-00001.0.tmp",
        f"{WORK}/index-01234567/fingerprint",
        f"{FORMER}/rejects/x",
        "notes.txt",
    )

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


def test_the_same_command_removes_what_one_left_that_was_killed_between_its_last_unit_and_its_end(
    small_run: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_run.parent, tmp_path / "job"))
    run, job = folder / "run", load(folder / "job.toml")
    sound = files(run)
    write(run, f"{WORK}/rerank-01234567/unit-00000.json", f".answers.jsonl.{'0' * 32}.tmp")
    assert [leftover.path.name for leftover in leftovers(run)] == [
        f".answers.jsonl.{'0' * 32}.tmp",
        "rerank-01234567",
    ]
    list(run_steps(job, run, ["rerank"], ()))
    assert leftovers(run) == [] and files(run) == sound


def test_what_a_stopped_step_goes_on_with_stays(run: Path) -> None:
    kept = next((run / "scored").glob("part-00000*"))
    folder = run / WORK / "rerank-01234567"
    folder.mkdir(parents=True)
    from answermill.pipelines.runs.manifests.reports import Report, Reports
    from answermill.pipelines.runs.parquet_folder import Part

    Reports(folder, RerankCounts, run).write(
        Report(0, {"scored": (Part(kept.name, 1, 1, "0" * 64),)}, RerankCounts())
    )
    write(run, PART)
    assert call("clean", run, "--yes") == 0
    assert [path.name for path in (run / "scored").iterdir()] == [kept.name] and list(folder.iterdir())


def test_a_former_folder_that_nothing_has_replaced_stays(run: Path) -> None:
    (run / "labels").rename(run / FORMER)
    assert call("clean", run, "--yes") == 0
    assert (run / FORMER).is_dir()


def running(run: Path, **values: object) -> None:
    now = time.time()
    state = {
        "host": platform.node(),
        "user": "u",
        "pid": os.getpid(),
        "began": now,
        "seen": now,
        "every_s": 3.0,
    }
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
    capsys.readouterr()
    assert call("status", run) == 0
    assert capsys.readouterr().out.startswith("complete: all that was begun\n")


@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_a_folder_that_is_no_run_is_refused_and_left_alone(
    tmp_path: Path, capsys, words: tuple[str, ...]
) -> None:
    assert call("clean", tmp_path / "nowhere", *words) == INPUT_MISSING
    theirs = (
        "documents/part-0.parquet",
        "shards/0-of-1/x",
        "_work/collect/x",
        ".draft.tmp",
        "labels/passages/part-1.parquet",
    )
    write(tmp_path, *theirs)
    assert call("clean", tmp_path, *words) == INPUT_MISSING
    assert f"no run in {tmp_path}: no step of one has begun there" in capsys.readouterr().err
    assert set(files(tmp_path)) == set(theirs) and not (tmp_path / "nowhere").exists()


def test_a_run_whose_first_unit_was_killed_is_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        f"{WORK}/ingest-01234567/fingerprint",
        "documents/part-00000-abcdef12.parquet",
        "documents/.part-00001.0.tmp",
    )
    assert call("clean", tmp_path, "--yes") == 0
    assert set(files(tmp_path)) == {f"{WORK}/ingest-01234567/fingerprint"}


def test_votes_stay_whatever_is_missing_beside_them(run: Path) -> None:
    write(
        run,
        "collected/annotations/part-00000-abcdef12.parquet",
        "collected/labels/part-00000-abcdef12.parquet",
    )
    before = files(run)
    assert call("clean", run, "--yes") == 0
    assert {name for name in before if name.startswith("collected/")} <= files(run).keys()


def test_what_is_removed_is_listed_once_with_its_size(run: Path, capsys) -> None:
    others = sum(path.stat().st_size for name in ("scored", "answers") for path in (run / name).iterdir())
    (run / "scored/.part-00001.0.tmp").write_bytes(bytes(1_500_000))
    assert call("clean", run, "--yes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("removed    scored/.part-00001.0.tmp  (half-written)") == 1
    assert lines[-1].startswith(f"cleaned    {len(lines) - 1} leftovers, ") and lines[-1].endswith(
        f"{(1_500_000 + others) / 1e6:,.1f} MB"
    )


@pytest.mark.nightly
def test_of_a_run_in_a_store_the_same_is_removed(
    small_run: Path, s3: ObjectStore, tmp_path: Path, capsys
) -> None:
    run = s3.folder("left-over")
    for name in files(small_run):
        shutil.copy(small_run / name, tmp_path / "copy")
        put(tmp_path / "copy", run / name)
    left = (PART, f"{WORK}/index-01234567/fingerprint", f"shards/00007-of-00009-abcdef12/{PART}")
    for name in left:
        put(tmp_path / "copy", run / name)
    assert call("clean", run, "--yes") == 0
    assert capsys.readouterr().out.count("removed ") == 3
    assert {path.relative_to(run).as_posix() for path in run.files()} == files(small_run).keys()
    remove_tree(run)
