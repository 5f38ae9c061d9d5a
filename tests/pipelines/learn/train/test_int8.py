"""A checkpoint's loss by whole numbers: measured, stated in a copy, and refused where it is too much or
unknown."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.model_files import INT8, folder_digest
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import OUTPUT_EXISTS, SETTINGS, USAGE, JobError
from answermill.pipelines.learn.evaluate.rank import RankOptions, load_ranker, rank
from answermill.pipelines.learn.train.int8 import serves_int8
from answermill.ranking.checkpoint import Int8Loss
from answermill.ranking.entry import TransformerStage
from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.registry import find, known
from testing import command
from testing.tiny import checkpoint as write_checkpoint

call = partial(command.call, "int8")
SETTING = ["precision=int8"]


@pytest.fixture
def measured(checkpoint: Path, dev: Path, tmp_path: Path) -> Path:
    assert call(checkpoint, "--out", tmp_path / "measured", "--dev", dev) == 0
    return tmp_path / "measured"


def test_a_copy_states_the_loss_where_people_and_machines_read_it(
    checkpoint: Path, dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = tmp_path / "measured"
    assert call(checkpoint, "--out", measured, "--dev", dev) == 0
    loss = Int8Loss.read(measured)
    assert loss is not None and loss.reranker == "pointwise" and loss.metric == "MAP"
    assert loss.fp32 == 100 and loss.loss == pytest.approx(loss.fp32 - loss.int8)
    assert loss.low <= loss.loss <= loss.high and loss.questions == 12 and len(loss.lists_sha256) == 64

    # The model is the same; only the statement is new, and a second one takes its place.
    assert folder_digest(measured) == folder_digest(checkpoint) and not (checkpoint / INT8).exists()
    card = (measured / "README.md").read_text()
    assert f"# A model\n\n{loss.statement()}\n\nTrained." in card
    assert capsys.readouterr().out.splitlines() == [loss.statement(), f"written: {measured}"]


def test_a_copy_that_is_measured_again_has_one_statement(measured: Path, dev: Path, tmp_path: Path) -> None:
    assert call(measured, "--out", tmp_path / "again", "--dev", dev, "--metric", "P@1") == 0
    card = (tmp_path / "again" / "README.md").read_text()
    assert card.count("int8") == 1 and "P@1 is" in card


def test_a_stage_takes_what_lost_no_more_than_its_bound(measured: Path, dev: Path) -> None:
    loss = Int8Loss.read(measured)
    assert loss is not None
    loss.model_copy(update={"loss": 0.2}).write(measured)
    options = RankOptions(str(measured), SETTING)
    assert len(list(rank("pointwise", dev, options=options))) == 120

    loss.model_copy(update={"loss": 0.21}).write(measured)
    with pytest.raises(JobError, match=r"lost 0.21 points of MAP by it on dev.parquet, more than") as e:
        load_ranker("pointwise", options)
    assert e.value.code == SETTINGS
    load_ranker("pointwise", RankOptions(str(measured), [*SETTING, "int8_loss=0.3"]))
    load_ranker("pointwise", RankOptions(str(measured), ["precision=fp32"]))


def test_a_checkpoint_that_was_not_measured_is_refused_with_the_command(
    checkpoint: Path, measured: Path, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match=rf"never measured; run `answermill int8 {checkpoint} --rer"):
        load_ranker("pointwise", RankOptions(str(checkpoint), SETTING))
    load_ranker("pointwise", RankOptions(str(checkpoint), [*SETTING, "int8_loss=any"]))

    # The statement of one model says nothing of another.
    write_checkpoint("pointwise", tmp_path / "other")
    (tmp_path / "other" / INT8).write_bytes((measured / INT8).read_bytes())
    with pytest.raises(JobError, match="was measured of another model than this folder's; run `answermill"):
        load_ranker("pointwise", RankOptions(str(tmp_path / "other"), SETTING))
    (measured / INT8).write_text(json.dumps({"loss": 0}))
    with pytest.raises(JobError, match=r"is damaged .* measure it again"):
        load_ranker("pointwise", RankOptions(str(measured), SETTING))


def test_a_card_refuses_whole_numbers(measured: Path) -> None:
    stage = find("pointwise").stage(precision="int8")
    resources = Resources(settings=stage, checkpoint=measured, encoder=lambda: pytest.fail(""), device="cuda")
    with pytest.raises(ValueError, match=r"is for processors, and this model runs on a graphics card"):
        find("pointwise").load(resources)


def test_a_job_is_refused_before_any_work(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy_to(tmp_path / "sample")
    text = job.read_text()
    plan = f'[[rerank.stages]]\nreranker = "pointwise"\ncheckpoint = "{checkpoint}"\nprecision = "int8"\n'
    job.write_text(text[: text.index("[[rerank.stages]]")] + plan)
    with pytest.raises(SystemExit) as e:
        main(["run", str(job), "--out", str(tmp_path / "run")])
    assert e.value.code == SETTINGS and not (tmp_path / "run" / "documents").exists()
    assert "rerank.stages.0: precision = 'int8'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--out", "."], OUTPUT_EXISTS, "has files"),
        (["--set", "precision=bf16"], USAGE, "both precisions are measured"),
        (
            ["--reranker", "overlap"],
            SETTINGS,
            "overlap has no setting `precision` with int8",
        ),
        (["--metric", "best"], USAGE, "best"),
    ],
)
def test_what_cannot_be_is_refused(
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
    arguments = {"--out": "out", "--dev": str(dev)} | {change[0]: change[1]}
    assert call(checkpoint, *(part for pair in arguments.items() for part in pair)) == code
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_stages_that_serve_it_are_those_of_transformers() -> None:
    able = {name for name in known() if serves_int8(name)}
    assert able == {"cascade", "cross_encoder", "multihead", "pointwise", "sequential"}
    assert all(issubclass(find(name).settings, TransformerStage) for name in able)
