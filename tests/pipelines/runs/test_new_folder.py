"""A folder that a command fills: its own, whole, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.new_folder import UNFINISHED, new_folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def refused(folder: Path, says: str) -> None:
    with pytest.raises(JobError, match=says) as e, new_folder(folder):
        raise AssertionError("it was given")
    assert e.value.code == OUTPUT_EXISTS


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_is_new_or_empty_is_filled(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "a/b"
    if is_there:
        folder.mkdir(parents=True)
    with new_folder(folder):
        (folder / "rows").write_text("1")
    assert names(folder) == ["rows"]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    refused(tmp_path, "exists already, and has files; name another folder")
    assert names(tmp_path) == ["theirs"]
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "is a file")


def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        with pytest.raises(KeyboardInterrupt), new_folder(folder):
            (folder / "inside").mkdir()
            (folder / "inside/rows").write_text("1")
            raise KeyboardInterrupt
    assert names(tmp_path) == ["empty"]


def test_what_a_killed_command_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "beir").mkdir()
    for name in (UNFINISHED, ".rows.0.tmp", "beir/rows"):
        (tmp_path / name).write_text("")
    with new_folder(tmp_path):
        assert names(tmp_path) == [".lock", UNFINISHED]
        (tmp_path / "rows").write_text("1")
    assert names(tmp_path) == ["rows"]


def test_two_commands_do_not_fill_one_folder(tmp_path: Path) -> None:
    with claimed(tmp_path):
        refused(tmp_path, "another process is writing here")
