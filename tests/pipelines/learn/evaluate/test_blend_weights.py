"""`answermill weights`: a run and its labels in, a file that a stage of the same plan takes out."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.learn.evaluate.blend_weights import fit_exits_of, fit_run
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import run_stages
from answermill.ranking.rerankers.blend.weights import FitOptions, WeightsFile
from answermill.ranking.rerankers.cascade.cascade import Cascade, fit_prior
from testing.command import call
from testing.tiny import checkpoint

PLAN = """
[[rerank.stages]]
reranker = "overlap"
name = "words"
[[rerank.stages]]
reranker = "cascade"
checkpoint = "cascade"
drop = [0.1]
[[rerank.stages]]
reranker = "similarity"
keep = 30
"""
ENCODER = '[index]\nencoder = "{}"\n'
BLEND = '[[rerank.stages]]\nreranker = "blend"\nweights_file = "weights.json"\n'
NAMES = ("words", "similarity", "bm25")


@pytest.fixture(scope="module")
def ranked(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with job.toml, and the run of its plan."""
    folder = tmp_path_factory.mktemp("ranked")
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(small_run / name, folder / "run" / name)
    (folder / "job.toml").write_text(ENCODER.format(small_run.parent / "encoder") + PLAN)
    checkpoint("cascade", folder / "cascade")
    assert call("rerank", folder / "job.toml", "--out", folder / "run") == 0
    return folder


def test_a_run_and_its_labels_give_a_file_that_the_plan_takes(ranked, small_run, tmp_path, capsys) -> None:
    labels, file = small_run / "labels/sentences", tmp_path / "weights.json"
    assert call("weights", ranked / "run/scored", "--labels", labels, "--names", *NAMES, "--out", file) == 0
    lines = capsys.readouterr().out.splitlines()
    content = WeightsFile.read(file)
    (fit,) = content.fits
    assert set(fit.weights) == set(NAMES) and fit.questions > 5
    assert lines[0].startswith(
        f"{fit.questions:,} questions with a correct candidate among {fit.candidates:,}; "
    )

    assert [line.split()[0] for line in lines[4:]] == [*sorted(NAMES), "blend", "blend"]
    assert f"{100 * fit.blend['MRR'].value:.2f}" in lines[-2] and f"blend - {fit.best}" in lines[-1]
    assert content.stages["words"].model is None and content.stages["similarity"].model is not None
    again = tmp_path / "again.json"
    assert (
        call("weights", ranked / "run/scored", "--labels", labels, "--names", *NAMES[::-1], "--out", again)
        == 0
    )
    assert again.read_bytes() == file.read_bytes()

    job, run = tmp_path / "job.toml", tmp_path / "run"
    shutil.copytree(ranked / "run", run, ignore=shutil.ignore_patterns("scored", "work", "answers*"))
    shutil.copytree(ranked / "cascade", tmp_path / "cascade")
    job.write_text((ranked / "job.toml").read_text() + BLEND)
    assert call("rerank", job, "--out", run) == 0
    blended = SCORED.open(run).read()
    assert Counter(row.stages[-1].stage for row in blended)["blend"] > 100
    job.write_text((ranked / "job.toml").read_text().replace('"overlap"', '"complete_sentence"') + BLEND)
    shutil.copytree(run, tmp_path / "other", ignore=shutil.ignore_patterns("scored", "work", "answers*"))

    capsys.readouterr()
    assert call("rerank", job, "--out", tmp_path / "other") == 78
    assert "rerank.stages.3: weights_file" in capsys.readouterr().err


def test_what_is_fitted_are_the_lists_that_every_named_stage_has_scored(ranked, small_run) -> None:
    rows = list(SCORED.open(ranked / "run").read())
    asked = {row.question_id for row in SCORED.open(ranked / "run").read()}
    both = fit_run(ranked / "run/scored", small_run / "labels/sentences", NAMES)
    (fit,) = both.file.fits
    assert fit.questions + fit.without_answer <= len(asked)
    scored = sum("similarity" in {score.stage for score in row.stages} for row in rows)
    assert both.left_out == sum(row.unit == "sentence" for row in rows) - scored > 0
    assert fit.candidates <= scored
    cascade = fit_run(ranked / "run/scored", small_run / "labels/sentences", ["words", "cascade"])
    # Who left at an exit has that exit's score, which is not the stage's.
    assert cascade.left_out == both.left_out
    assert sum(len(row.stages) == 2 and row.stages[-1].rank is None for row in rows) == both.left_out


def test_what_cannot_be_fitted_is_refused(ranked, small_run, tmp_path, capsys) -> None:
    scored, labels, out = ranked / "run/scored", small_run / "labels/sentences", tmp_path / "w.json"
    for names, more, code, says in (
        (["wrods"], [], 2, "--names wrods: no such score in"),
        (["words", "words"], [], 2, "name each of them once"),
        (["words"], ["--folds", 1], 2, "Must be >= 2."),
        (["words"], ["--folds", 10_000], 65, "10000 folds of"),
        (["words"], ["--penalty", -1], 2, "Must be a number"),
    ):
        assert call("weights", scored, "--labels", labels, "--names", *names, "--out", out, *more) == code
        assert says in capsys.readouterr().err

    assert call("weights", scored, "--labels", tmp_path / "none", "--names", "words", "--out", out) == 66
    assert call("weights", tmp_path, "--labels", labels, "--names", "words", "--out", out) in (65, 66)
    (tmp_path / "labels.tsv").write_text("q 0 c 1\n")
    assert (
        call("weights", scored, "--labels", tmp_path / "labels.tsv", "--names", "words", "--out", out) == 65
    )
    assert not out.exists()


def test_the_file_says_what_it_was_fitted_on(ranked, small_run, tmp_path) -> None:
    fit_run(ranked / "run/scored", small_run / "labels/sentences", NAMES).file.write(tmp_path / "w.json")
    content = json.loads((tmp_path / "w.json").read_text())
    (fit,) = content["fits"]
    assert {"weights", "questions", "penalty", "folds", "alone", "blend", "gain"} <= set(fit)
    assert content["stages"]["words"] == {"reranker": "overlap", "model": None}
    assert set(fit["blend"]["MRR"]) == {"value", "low", "high"}


EXIT_NAMES = ("exit", "words", "bm25")
EXIT_WEIGHTS = 'weights_file = "exits.json"\n'


@pytest.mark.nightly
def test_the_exits_of_a_cascade_get_a_table_that_its_stage_takes(
    ranked, small_run, tmp_path, capsys, monkeypatch
) -> None:
    labels, file = small_run / "labels/sentences", tmp_path / "exits.json"
    options = ["--labels", labels, "--exits-of", "cascade", "--out", file]
    monkeypatch.chdir(ranked)
    assert call("weights", "run/scored", *options, "--names", *EXIT_NAMES) == 0
    lines = capsys.readouterr().out.splitlines()
    content = WeightsFile.read(file)
    (fit,) = content.fits  # the model has two exits
    assert set(fit.weights) == set(EXIT_NAMES) and fit.questions > 5
    assert lines[0] == "exit 1, of 2" and "questions with a correct candidate" in lines[1]

    assert content.stages["exit"].reranker == "cascade" and content.stages["exit"].model is not None
    written = file.read_bytes()
    monkeypatch.chdir(tmp_path)

    # It is beside the job; elsewhere its name is that of a checkpoint that ships.
    assert call("weights", ranked / "run/scored", *options, "--names", "bm25", "words") == 65
    assert "not the checkpoint that cascade had in" in capsys.readouterr().err
    more = ["--names", "bm25", "words", "--checkpoint", ranked / "cascade"]
    assert call("weights", ranked / "run/scored", *options, *more) == 0 and file.read_bytes() == written

    job, run = tmp_path / "job.toml", tmp_path / "run"
    shutil.copytree(ranked / "run", run, ignore=shutil.ignore_patterns("scored", "work", "answers*"))
    shutil.copytree(ranked / "cascade", tmp_path / "cascade")
    job.write_text(
        (ranked / "job.toml").read_text().replace("drop = [0.1]\n", f"drop = [0.1]\n{EXIT_WEIGHTS}")
    )
    assert call("rerank", job, "--out", run) == 0


@pytest.mark.nightly
def test_the_lists_are_those_that_came_to_the_stage_and_left_it_at_any_exit(ranked, small_run) -> None:
    labels = small_run / "labels/sentences"
    options = FitOptions(penalty=0.01, folds=3)
    fitted = fit_exits_of(
        ranked / "run/scored", labels, "cascade", EXIT_NAMES, options, checkpoint=ranked / "cascade"
    )
    overlap, cascade, _ = load_plan(load(ranked / "job.toml"), ranked / "run")
    assert isinstance(cascade.reranker, Cascade)
    hits = RETRIEVED.open(ranked / "run").read()
    lists = [outcome.kept for outcome in run_stages(list(ranked_lists(hits)), [overlap])]

    rows = list(SCORED.open(ranked / "run").read())
    assert sum(len(ranked_list.candidates) for ranked_list in lists) == sum(
        row.unit == "sentence" for row in rows
    )
    assert {score.exit for row in rows for score in row.stages if score.stage == "cascade"} == {1, 2}
    values = read_labels(labels).values
    pairs = zip(
        values.question_id.to_pylist(), values.candidate_id.to_pylist(), values.value > 0, strict=True
    )
    gold = {(question, candidate) for question, candidate, is_correct in pairs if is_correct}
    correct = [
        [int((each.question.question_id, c.candidate_id) in gold) for c in each.candidates] for each in lists
    ]
    expected = fit_prior(cascade.reranker, lists, correct, EXIT_NAMES[1:], (0.1,), options=options)
    assert [fit.weights for fit in fitted.file.fits] == [
        fit.weights for fit in expected
    ] and fitted.left_out == 0


def test_exits_that_cannot_be_fitted_are_refused(ranked, small_run, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(ranked)
    labels, out = small_run / "labels/sentences", tmp_path / "w.json"
    checkpoint("cascade", tmp_path / "another")
    (tmp_path / "another/config.json").write_text((tmp_path / "another/config.json").read_text() + " ")

    for stage, names, more, code, says in (
        ("cascades", ["words"], [], 2, "--exits-of cascades: no such stage in"),
        ("words", ["bm25"], [], 2, "a stage of overlap, which takes no weights at exits"),
        (
            "cascade",
            ["exit", "wrods"],
            [],
            2,
            "--names wrods: no score that is known before the exits of cascade",
        ),
        ("cascade", ["exit", "similarity"], [], 2, "--names similarity: no score that is known before"),
        ("cascade", ["exit"], [], 2, "name at least one score beside exit"),
        ("cascade", ["bm25", "bm25"], [], 2, "each once"),
        ("cascade", ["bm25"], ["--folds", 1], 2, "Must be >= 2."),
        (
            "cascade",
            ["bm25"],
            ["--checkpoint", tmp_path / "another"],
            65,
            "not the checkpoint that cascade had in",
        ),
        ("cascade", ["bm25"], ["--checkpoint", tmp_path / "none"], 66, "none is no checkpoint of cascade"),
    ):
        assert (
            call(
                "weights",
                "run/scored",
                "--labels",
                labels,
                "--exits-of",
                stage,
                "--names",
                *names,
                "--out",
                out,
                *more,
            )
            == code
        )

        assert says in capsys.readouterr().err

    # Of no stage.
    assert call("weights", "run/scored", "--labels", labels, "--names", "exit", "--out", out) == 2
    assert (
        call(
            "weights",
            "run/scored",
            "--labels",
            labels,
            "--names",
            "bm25",
            "--checkpoint",
            "cascade",
            "--out",
            out,
        )
        == 2
    )

    shutil.copytree("run/scored", tmp_path / "alone/scored")
    command = ["--labels", labels, "--exits-of", "cascade", "--names", "bm25", "--out", out]
    assert call("weights", tmp_path / "alone/scored", *command) == 66
    assert "which has the texts; give the whole run" in capsys.readouterr().err
    assert not out.exists()
