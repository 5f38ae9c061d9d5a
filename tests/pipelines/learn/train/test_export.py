"""The command: what it writes and says, and how it refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from answermill.files.model_files import STATE
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.errors import INPUT_MISSING, OUTPUT_EXISTS, SETTINGS
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, save
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from testing import command

call = partial(command.call, "export")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    encoder = LayeredEncoder(Shape(layers=2, width=16, heads=2, inner=32, vocabulary=30_522, positions=64))
    save(
        tmp_path / "checkpoint", "cascade", CascadeModel(encoder, (1, 2)), Tokeniser(find_model(DEFAULT), 64)
    )
    return tmp_path / "checkpoint"


def test_it_writes_the_folder_and_says_how_to_load_it(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(checkpoint, "--out", tmp_path / "out", "--exit", 1) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 layers, at most 64 tokens") and f"CrossEncoder('{tmp_path / 'out'}')" in shown
    assert (tmp_path / "out/modules.json").is_file()


def test_it_refuses_what_is_no_checkpoint_no_exit_and_no_empty_folder(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "--out", tmp_path / "out") == SETTINGS
    assert call(checkpoint, "--out", tmp_path / "out", "--exit", 3) == SETTINGS
    assert call(checkpoint, "--out", tmp_path) == OUTPUT_EXISTS
    (tmp_path / "begun" / STATE).mkdir(parents=True)
    assert call(tmp_path / "begun", "--out", tmp_path / "out") == SETTINGS
    said = capsys.readouterr().err.splitlines()
    reasons = ("no checkpoint", "give 1 to 2", "has files", "begun: its training has not ended")
    assert [reason in line for reason, line in zip(reasons, said, strict=True)] == [True] * 4
    assert not (tmp_path / "out").exists()


def test_it_takes_a_shipped_checkpoint_by_its_name(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answermill.ranking.entry.SHIPPED", tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert call("checkpoint", "--out", "out") == 0 and Path("out/modules.json").is_file()
    assert call("checkpoin", "--out", "other") == INPUT_MISSING
