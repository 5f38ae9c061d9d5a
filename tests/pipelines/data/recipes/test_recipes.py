"""The job files that ship with the package can be read, and a user gets them."""

from __future__ import annotations

import json

import pytest

from answermill.pipelines.config.input_files import check_files
from answermill.pipelines.config.job_file import Propagate, load
from answermill.pipelines.config.training_file import TrainJob, load_job
from answermill.pipelines.data.recipes import FOLDER
from answermill.pipelines.learn.train.train import build
from answermill.pipelines.specs.shipped_plans import PLANS
from answermill.pipelines.steps.chain import steps_of
from answermill.pipelines.steps.job_plan import plan_settings
from answermill.ranking.entry import SHIPPED
from answermill.schemas.labels import LabelledCandidate
from testing.command import call

RECIPES = sorted(path.stem for path in FOLDER.glob("*.toml"))


def test_there_are_recipes():
    assert RECIPES == ["adapt", "job", "peasi", "wqa"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_written_and_can_be_read(name, tmp_path, capsys):
    assert call("recipe", name, "--out", tmp_path / "mine") == 0
    path = tmp_path / "mine" / f"{name}.toml"
    assert path.read_bytes() == (FOLDER / f"{name}.toml").read_bytes()
    if name == "job":
        assert steps_of(load(path), tmp_path) == ["ingest", "index", "retrieve", "rerank"]
        return
    if name != "wqa":
        assert isinstance(load_job(path), TrainJob)
        return

    job = load(path)
    assert job.ingest and (job.ingest.domains, job.ingest.language, job.ingest.passage_tokens) == (
        5000,
        "en",
        200,
    )
    assert job.retrieve and (job.retrieve.depth, job.retrieve.question_rules) == (1000, "well_formed")
    assert job.rerank and [stage.reranker for stage in job.rerank.stages] == [
        "cosinet",
        "complete_sentence",
        "cascade",
    ]

    assert job.annotate and (job.annotate.top, job.annotate.annotators) == (15, 1)
    assert job.propagate == Propagate() and job.propagate.labels is None
    assert "propagate" not in steps_of(job, tmp_path) and steps_of(job, tmp_path)[-1] == "annotate"


def test_the_recipe_s_plan_is_one_that_runs(tmp_path):
    call("recipe", "wqa", "--out", tmp_path)
    assert plan_settings(load(tmp_path / "wqa.toml")).stages[-1].reranker == "cascade"


def test_a_recipe_that_was_edited_stays(tmp_path, capsys):
    for _ in range(2):
        assert call("recipe", "wqa", "--out", tmp_path) == 0
    (tmp_path / "wqa.toml").write_text("# mine")
    assert call("recipe", "wqa", "--out", tmp_path) == 73
    assert "exists already, with other content" in capsys.readouterr().err
    assert (tmp_path / "wqa.toml").read_text() == "# mine"


def test_the_adapt_recipe_of_the_base_body_names_its_checkpoint_and_a_lower_rate(tmp_path, capsys):
    assert call("recipe", "adapt", "--body", "base", "--out", tmp_path) == 0
    base, default = load_job(tmp_path / "adapt.toml"), load_job(FOLDER / "adapt.toml")
    assert base.trained.encoder == "cascade_base" and default.trained.encoder == "cascade"
    assert base.path("cascade_base") == SHIPPED / "cascade_base"
    assert (base.train.learning_rate, default.train.learning_rate) == (1e-5, 3e-5)
    assert call("recipe", "peasi", "--body", "base", "--out", tmp_path) == 78
    assert "--body base is for `adapt` alone" in capsys.readouterr().err


def test_the_adapt_recipe_begins_with_the_checkpoint_that_ships(tmp_path):
    call("recipe", "adapt", "--out", tmp_path)
    job = load_job(tmp_path / "adapt.toml")
    rows = [
        LabelledCandidate("q", "Who sang it?", f"c{n}", "d", "", n, f"{name} sang it.", n)
        for n, name in enumerate("ab")
    ]
    built = build(job, [rows], [rows])
    assert "begun with cascade" in built.description
    assert list(built.task.model.exits) == json.loads((SHIPPED / "cascade/config.json").read_text())["exits"]
    (tmp_path / "cascade").mkdir()
    assert job.path("cascade") == tmp_path / "cascade", "a folder of that name is what its owner means"


def test_a_job_for_one_s_own_files_names_them_from_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("pages.jsonl", 'a "quoted"\nname.tsv', "labels.tsv"):
        (tmp_path / name).write_text("")
    own = ("--pages", "*.jsonl", "s3://bucket/*.gz", "--questions", 'a "quoted"\nname.tsv')
    assert call("recipe", "job", "--out", "jobs/new", *own, "--labels", tmp_path / "labels.tsv") == 0
    job = load(tmp_path / "jobs/new/job.toml")
    assert job.ingest is not None and job.ingest.input == ["../../*.jsonl", "s3://bucket/*.gz"]
    assert job.retrieve is not None and job.retrieve.questions == '../../a "quoted"\nname.tsv'
    assert job.propagate is not None and job.propagate.labels == str(tmp_path / "labels.tsv")
    check_files(job, ["ingest", "retrieve", "rerank", "propagate"])


@pytest.mark.parametrize("plan", PLANS)
def test_a_job_takes_any_plan_that_ships(plan, tmp_path):
    assert call("recipe", "job", "--plan", plan, "--out", tmp_path) == 0
    job = load(tmp_path / "job.toml")
    assert job.rerank is not None and job.rerank.plan == plan
    assert job.rerank.answers.has_bar is (plan in ("sure", "sure-base"))
    assert plan_settings(job).stages[0].reranker == "cosinet"
    check_files(job, ["rerank"])  # a checkpoint that ships is no file beside the job


@pytest.mark.parametrize(("option", "written"), [("--pages", ""), ("--questions", " "), ("--labels", "")])
def test_an_empty_name_is_refused(tmp_path, monkeypatch, capsys, option, written):
    monkeypatch.chdir(tmp_path)
    assert call("recipe", "job", option, written) == 2
    assert "is empty; give a path" in capsys.readouterr().err
    assert not (tmp_path / "job.toml").exists()


def test_a_job_for_files_that_are_missing_is_not_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("recipe", "job", "--pages", "crawl/*.gz") == 66
    assert call("recipe", "job", "--questions", "q.tsv") == 66
    assert call("recipe", "job", "--pages", "**x") == 66
    assert call("recipe", "job", "--questions", tmp_path) == call("recipe", "job", "--labels", ".") == 66
    err = capsys.readouterr().err
    assert "crawl/*.gz: no file matches" in err and "q.tsv: no such file" in err
    assert f"questions: {tmp_path} is a folder; give a file" in err
    assert "labels: . is a folder; give a file" in err
    assert call("recipe", "wqa", "--plan", "full") == 78
    assert "--plan is for `recipe job`; leave it out for wqa" in capsys.readouterr().err
    assert call("recipe", "peasi", "--questions", "q.tsv") == 78
    assert "--questions is for `recipe job` and `recipe wqa`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_pages_of_a_date_are_named_before_they_have_come(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("recipe", "job", "--pages", "crawl/{date}/*.warc.gz", "--out", "jobs") == 0
    job = load(tmp_path / "jobs/job.toml", ["date=2026-01-31"])
    assert job.ingest is not None and job.ingest.input == ["../crawl/2026-01-31/*.warc.gz"]


def test_the_recipe_of_a_data_set_takes_pages_and_questions_of_one_s_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("web.warc.gz", "asked.tsv"):
        (tmp_path / name).write_text("")
    assert call("recipe", "wqa", "--pages", "web.warc.gz", "--questions", "asked.tsv", "--out", "mine") == 0
    job = load(tmp_path / "mine/wqa.toml")
    assert job.ingest is not None and job.ingest.input == ["../web.warc.gz"]
    assert job.retrieve is not None and job.retrieve.questions == "../asked.tsv"
    assert job.annotate is not None and job.annotate.top == 15
