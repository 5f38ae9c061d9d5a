"""A file or folder is there complete or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from answermill.files.atomic_files import recover_folder, replace_folder, replacing, whole_text, write_text


def test_a_file_that_must_be_new_is_not_overwritten(tmp_path: Path) -> None:
    assert write_text(tmp_path / "a", "one", replace=False)
    assert not write_text(tmp_path / "a", "two", replace=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["one"]


def test_a_file_keeps_its_content_until_the_new_one_is_complete(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "a", "one")
    with pytest.raises(RuntimeError, match="half"), whole_text(tmp_path / "deep" / "a") as write:
        write("tw")
        raise RuntimeError("half")
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["one"]
    write_text(tmp_path / "deep" / "a", "two")
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["two"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_so_is_its_name_in_the_end(
    tmp_path: Path, monkeypatch
) -> None:
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().suffix, (tmp_path / "a").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    with replacing(tmp_path / "a") as temporary:
        temporary.write_bytes(b"one")
    assert synced == [(".tmp", False), (tmp_path.suffix, True)]


def test_a_pipe_and_a_descriptor_are_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe, name = tmp_path / "pipe", tmp_path / "name"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    name.symlink_to(f"/proc/self/fd/{os.open(pipe, os.O_WRONLY)}")

    try:
        for file in (pipe, name, name.readlink()):
            assert write_text(file, "one")
            assert os.read(reader, 100) == b"one"
            with pytest.raises(FileExistsError, match="a device or a pipe"), replacing(file):
                pass
        assert pipe.is_fifo() and name.is_symlink()
    finally:
        for descriptor in (reader, int(name.readlink().name)):
            os.close(descriptor)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for name, content in (("folder", "one"), ("new", "two"), ("newer", "three")):
        write_text(tmp_path / name / "deep" / content, content)
    replace_folder(tmp_path / "new", tmp_path / "folder")
    assert [path.name for path in (tmp_path / "folder" / "deep").iterdir()] == ["two"]
    replace_folder(tmp_path / "newer", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "other"]


def test_of_two_that_give_a_folder_a_name_at_once_the_last_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        write_text(tmp_path / name / "a", name)
    rename = Path.rename

    def overtaken(path: Path, target: Path) -> Path:
        if path.name == "second" and (tmp_path / "first").exists():
            replace_folder(tmp_path / "first", target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    replace_folder(tmp_path / "second", tmp_path / "folder")
    assert (tmp_path / "folder" / "a").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


KILLED = """
import os, sys
from pathlib import Path
from answermill.files.atomic_files import replace_folder

folder, moment = Path(sys.argv[1]), sys.argv[2]
rename = Path.rename

def killed(path, target):
    if moment == "before" and target == folder:
        os._exit(9)
    renamed = rename(path, target)
    if moment == "after" and target == folder:
        os._exit(9)
    return renamed

Path.rename = killed
replace_folder(folder.with_name("new"), folder)
"""


@pytest.mark.parametrize(("moment", "content"), [("before", "one"), ("after", "two")])
def test_a_folder_is_there_after_a_kill_between_the_renamings(
    tmp_path: Path, moment: str, content: str
) -> None:
    folder = tmp_path / "folder"
    write_text(folder / "a", "one")
    write_text(tmp_path / "new" / "a", "two")
    child = subprocess.run(
        [sys.executable, "-c", KILLED, folder, moment], cwd=Path(__file__).parents[2], check=False
    )
    assert child.returncode == 9
    assert folder.exists() == (moment == "after") and len(list(tmp_path.glob(".folder.*"))) == 1
    recover_folder(folder)
    assert (folder / "a").read_text() == content
    assert list(tmp_path.glob(".folder.*")) == []


def test_a_reader_that_recovers_a_folder_does_not_hinder_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    write_text(folder / "a", "one")
    write_text(tmp_path / "new" / "a", "two")
    rename, read = Path.rename, []

    def read_meanwhile(path: Path, target: Path) -> Path:
        if path.name == "new" and not read:
            monkeypatch.setattr(Path, "rename", rename)
            recover_folder(folder)
            read.append((folder / "a").read_text())
            monkeypatch.setattr(Path, "rename", read_meanwhile)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", read_meanwhile)
    replace_folder(tmp_path / "new", folder)
    assert read == ["one"]
    assert (folder / "a").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
