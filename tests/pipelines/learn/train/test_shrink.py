"""The command: it writes the smallest form that keeps the dev score, shows what it tried, and refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from answermill.files.model_files import SUMS
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, SETTINGS, USAGE
from answermill.pipelines.learn.train.dev_score import DevScore
from answermill.pipelines.learn.train.shrink import SHARES
from answermill.ranking.checkpoint import Int8Loss
from answermill.ranking.rerankers.cascade.cascade_model import load_pointwise
from testing import command
from testing.tiny import checkpoint as write_checkpoint
from testing.tiny import write_body

call = partial(command.call, "shrink")


def table(shown: str) -> list[tuple[str, float, float]]:
    """(kept, MB, metric) of the lines below the head."""
    lines = [line for line in shown.splitlines()[1:] if not line.startswith(("written", "With"))]
    return [(line[:10].strip(), *map(float, line[10:].split())) for line in lines]  # type: ignore[misc]


def test_the_first_form_within_the_bound_is_written_after_those_that_lose_more(
    checkpoint: Path, clear_dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call(checkpoint, "--out", out, "--dev", clear_dev, "--bound", 5, "--body", tmp_path / "body") == 0
    (_, whole, before), *tried = table(capsys.readouterr().out)
    assert before == 100.0 and len(tried) > 1
    assert all(score < 95 for _, _, score in tried[:-1]) and tried[-1][2] >= 95
    assert [kept for kept, _, _ in tried] == [f"{100 * share:g} %" for share in SHARES[: len(tried)]]

    sizes = [size for _, size, _ in tried]
    assert sizes == sorted(sizes) and sizes[-1] < whole
    assert (out / "model.safetensors").stat().st_size < (checkpoint / "model.safetensors").stat().st_size
    config = json.loads((out / "config.json").read_text())
    assert config["body"] == config["words"] and config["body"]["model"] == str(tmp_path / "body")

    model, _ = load_pointwise(out)
    assert model.exits == (2,) and (out / SUMS).is_file()
    card = (out / "README.md").read_text()
    loss = Int8Loss.read(out)
    assert loss is not None and loss.lists == "dev.parquet"
    # The table has scores in the processor's fast precision, which need not be fp32.
    assert loss.fp32 == pytest.approx(DevScore(clear_dev).values(out, "precision=fp32").mean())
    assert card.startswith(
        f"---\nlicense: mit\n---\n\n# A model\n\n{loss.statement()}\n\nStored as differences to "
    )
    assert card.endswith("\n\nTrained.\n")
    assert (
        f"{tried[-1][0]} of the energy is kept: MAP {tried[-1][2]:.2f} on dev.parquet, before 100.00" in card
    )
    assert (out / "training.json").is_file()


def test_a_bound_that_no_form_keeps_is_refused_and_leaves_nothing(
    checkpoint: Path,
    dev: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("answermill.pipelines.learn.train.shrink.SHARES", SHARES[:1])
    before = sorted(tmp_path.iterdir())
    assert call(checkpoint, "--out", tmp_path / "out", "--dev", dev, "--bound", 0) == BAD_DATA
    shown = capsys.readouterr()
    assert len(table(shown.out)) == 2
    assert shown.err.splitlines()[-1] == (
        f"answermill: {checkpoint}: no smaller form keeps MAP within 0 of 100.00 on {dev}; give a higher "
        "--bound, or keep the checkpoint"
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_checkpoint_that_was_shrunk_can_be_shrunk_further(
    checkpoint: Path, clear_dev: Path, tmp_path: Path
) -> None:
    assert call(checkpoint, "--out", tmp_path / "first", "--dev", clear_dev, "--bound", 5) == 0
    assert call(tmp_path / "first", "--out", tmp_path / "next", "--dev", clear_dev, "--bound", 100) == 0
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("first", "next")]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--bound", "-1"], USAGE, "Must be a number from 0 up."),
        (["--body", "other"], SETTINGS, "has the words of"),
        (["--out", "."], OUTPUT_EXISTS, "has files"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    change: list[str],
    code: int,
    message: str,
    checkpoint: Path,
    dev: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_body(tmp_path / "other", seed=3, width=32, inner=64)
    monkeypatch.setattr(
        "answermill.pipelines.learn.train.dev_score.evaluate", lambda *_, **__: pytest.fail("it was measured")
    )
    arguments = {"--out": "out", "--dev": str(dev)} | {change[0]: change[1]}
    assert call(checkpoint, *(part for pair in arguments.items() for part in pair)) == code
    shown = capsys.readouterr()
    assert message in shown.err and shown.out == "" and not (tmp_path / "out").exists()


def test_a_checkpoint_without_a_transformer_and_one_of_another_shape_are_refused(
    dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Path
) -> None:
    write_checkpoint("cosinet", tmp_path / "own")
    for shipped_or_own in ("cosinet", tmp_path / "own"):
        assert call(shipped_or_own, "--out", tmp_path / "out", "--dev", dev) == SETTINGS
        assert "which has no transformer" in capsys.readouterr().err

    write_checkpoint("cascade", tmp_path / "cascade")
    assert call(tmp_path / "cascade", "--out", tmp_path / "out", "--dev", dev, "--body", body) == SETTINGS
    assert f"{tmp_path / 'cascade'} did not begin as {body}" in capsys.readouterr().err
