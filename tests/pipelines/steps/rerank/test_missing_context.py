"""A checkpoint that reads titles, over data without: refused before any work, or counted, as the stage
says."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill import Plan, stage
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.specs.rerank import RERANK, SCORED
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledCandidate
from testing.command import call
from testing.tiny import SHAPE, enlarged, tokeniser


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A cascade that reads titles."""
    model = enlarged(CascadeModel(LayeredEncoder(SHAPE), (1, 2)))
    model.reading = Reading(("sentence", "title"))
    cascade_model.save(tmp_path / "checkpoint", "cascade", model, tokeniser())
    return tmp_path / "checkpoint"


def data(file: Path, *titles: str) -> Path:
    rows = [
        LabelledCandidate("q", "Who?", f"q-{n}", f"d{n}", title, n, f"He {n}.", n % 2)
        for n, title in enumerate(titles)
    ]
    pq.write_table(LabelledCandidate.table(rows), file)
    return file


def test_a_run_refuses_or_counts(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        '[[rerank.stages]]\nreranker = "cascade"\ncheckpoint = "checkpoint"\nmissing_context = "refuse"\n'
    )
    for name, titles in (("none", ["", "", ""]), ("some", ["", "Opera", ""])):
        assert call("candidates", data(tmp_path / f"{name}.parquet", *titles), "--out", tmp_path / name) == 0
    assert call("rerank", job, "--out", tmp_path / "none") == BAD_DATA
    assert (
        "rerank.stages.0 (cascade): the checkpoint reads a title, but no candidate of 3"
        in capsys.readouterr().err
    )

    assert not (tmp_path / "none/scored" / MANIFEST).exists()
    assert call("rerank", job, "--out", tmp_path / "some") == 0
    assert "cascade: 2 candidates without title" in capsys.readouterr().out
    assert (
        call("rerank", job, "--out", tmp_path / "none", "--set", "rerank.stages.0.missing_context=count") == 0
    )
    counts = RERANK.counts_of(SCORED.open(tmp_path / "none").manifest)
    assert counts.stages["cascade"].missing == {"title": 3} and counts.candidates == 3


def test_evaluation_and_plans_in_memory_do_so_too(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    untitled = data(tmp_path / "none.parquet", "", "")
    refusing = RankOptions(checkpoint=str(checkpoint), settings=["missing_context=refuse"])
    with pytest.raises(JobError, match="reads a title") as e:
        evaluate("cascade", untitled, ranker=refusing)
    assert e.value.code == BAD_DATA
    assert evaluate("cascade", data(tmp_path / "some.parquet", "", "Opera"), ranker=refusing).missing == 0
    capsys.readouterr()
    evaluate("cascade", untitled, ranker=RankOptions(checkpoint=str(checkpoint)))
    assert "cascade: 2 candidates without title, which it reads" in capsys.readouterr().err

    plans = {
        value: Plan([stage("cascade", checkpoint=str(checkpoint), missing_context=value)])
        for value in ("count", "refuse")
    }
    assert len(plans["count"].rerank("Who?", ["He.", "She."])) == 2
    with pytest.raises(JobError, match="reads a title"):
        plans["refuse"].rerank("Who?", ["He.", "She."])


def test_it_is_no_setting_of_a_reranker_that_reads_one_text(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="missing_context"):
        stage("overlap", missing_context="refuse")
    with pytest.raises(JobError, match="missing_context"):
        stage("cascade", missing_context="never")
