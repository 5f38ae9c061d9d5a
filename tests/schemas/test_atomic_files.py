"""A file or folder is there complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.atomic_files import replace_folder, replacing, whole_text, write_text


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


def test_a_file_is_on_the_disk_before_it_has_its_name_and_so_is_its_name_in_the_end(tmp_path: Path, monkeypatch) -> None:
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().suffix, (tmp_path / "a").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    with replacing(tmp_path / "a") as temporary:
        temporary.write_bytes(b"one")
    assert synced == [(".tmp", False), (tmp_path.suffix, True)]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for name, content in (("folder", "one"), ("new", "two"), ("newer", "three")):
        write_text(tmp_path / name / "deep" / content, content)
    replace_folder(tmp_path / "new", tmp_path / "folder")
    assert [path.name for path in (tmp_path / "folder" / "deep").iterdir()] == ["two"]
    replace_folder(tmp_path / "newer", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "other"]


def test_of_two_that_give_a_folder_a_name_at_once_the_last_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
