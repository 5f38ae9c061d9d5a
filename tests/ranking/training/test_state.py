"""The state of a training on disk: nothing has its name before all of it is on disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from answermill.files.model_files import ModelDamaged
from answermill.ranking.training.state import Evaluated, History, keep, publish, resume, write_folder


class Trained:
    """A model of one layer, whose checkpoint has two files."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.history = History("f")

    def save(self, folder: Path) -> None:
        folder.mkdir()  # fails if an earlier attempt left something
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"weights")

    def step(self, dev: float) -> None:
        self.model(torch.ones(1, 2)).sum().backward()
        self.optimizer.step()
        self.history.step += 1
        self.history.evaluations.append(Evaluated(self.history.step, 1.0, 0.5, dev))


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_every_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    renamed: list[str] = []
    real_sync, real_replace, real_rename = os.fsync, Path.replace, Path.rename

    def fsync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real_sync(descriptor)

    def check(path: Path, target: Path) -> None:
        inside = [path, *path.rglob("*")] if path.is_dir() else [path]
        assert all(part.stat().st_ino in synced for part in inside), path
        renamed.append(Path(target).name)

    def replace(self: Path, target: Path) -> Path:
        check(self, target)
        return real_replace(self, target)

    def rename(self: Path, target: Path) -> Path:
        if self.exists():
            check(self, target)
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(Path, "rename", rename)
    trained = Trained()
    trained.step(0.5)
    keep(tmp_path / "_training", trained.save, trained.model, trained.optimizer, trained.history)
    assert renamed == ["best-1", "1.safetensors", "history.json"]
    assert tmp_path.joinpath("_training").stat().st_ino in synced
    publish(tmp_path / "_training", tmp_path, trained.history)

    assert renamed[3:] == ["config.json", "model.safetensors", "training.json"]
    assert tmp_path.stat().st_ino in synced


def test_only_the_last_state_and_the_best_checkpoint_stay(tmp_path: Path) -> None:
    trained = Trained()
    for dev in (0.5, 0.7, 0.6):
        trained.step(dev)
        keep(tmp_path / "state", trained.save, trained.model, trained.optimizer, trained.history)

    assert names(tmp_path / "state") == {
        "3.safetensors",
        "history.json",
        "best-2",
        "best-2/config.json",
        "best-2/model.safetensors",
    }
    other = Trained()
    history = resume(tmp_path / "state", other.model, other.optimizer, "f")
    assert history == trained.history and torch.equal(other.model.weight, trained.model.weight)


@pytest.mark.parametrize("cut", [0, 300, None])
def test_weights_that_are_not_those_kept_are_refused_with_what_to_delete(
    tmp_path: Path, cut: int | None
) -> None:
    trained = Trained()
    trained.step(0.5)
    keep(tmp_path / "state", trained.save, trained.model, trained.optimizer, trained.history)
    weights = tmp_path / "state/1.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    if cut is not None:
        weights.write_bytes(content[: -1 - cut] + b"x")
    with pytest.raises(ModelDamaged, match=f"delete {tmp_path}, and the same command trains anew"):
        resume(tmp_path / "state", trained.model, trained.optimizer, "f")


def test_a_best_checkpoint_that_is_gone_is_missed(tmp_path: Path) -> None:
    trained = Trained()
    trained.step(0.5)
    keep(tmp_path / "_training", trained.save, trained.model, trained.optimizer, trained.history)
    shutil.rmtree(tmp_path / "_training/best-1")
    with pytest.raises(ModelDamaged, match="best-1 is gone, the training's best checkpoint; delete"):
        publish(tmp_path / "_training", tmp_path, trained.history)
    assert not (tmp_path / "training.json").exists() and (tmp_path / "_training").is_dir()


def test_a_move_that_was_killed_before_the_history_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained()
    trained.step(0.5)
    keep(tmp_path / "_training", trained.save, trained.model, trained.optimizer, trained.history)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("answermill.ranking.training.state._write", killed)
        publish(tmp_path / "_training", tmp_path, trained.history)
    publish(tmp_path / "_training", tmp_path, trained.history)
    assert names(tmp_path) == {"config.json", "model.safetensors", "training.json"}


def test_a_checkpoint_whose_writing_was_stopped_is_written_anew(tmp_path: Path) -> None:
    def stops(folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{")
        raise KeyboardInterrupt

    trained = Trained()
    trained.step(0.5)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path / "state", stops, trained.model, trained.optimizer, trained.history)
    assert not (tmp_path / "state" / "best-1").exists()
    keep(tmp_path / "state", trained.save, trained.model, trained.optimizer, trained.history)
    assert (tmp_path / "state" / "best-1" / "config.json").read_text() == "{}"
    assert not any(name.startswith(".") for name in names(tmp_path / "state"))


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    trained = Trained()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.txt").write_text("old")
    write_folder(tmp_path / "out", trained.save)
    assert names(tmp_path / "out") == {"config.json", "model.safetensors"}
