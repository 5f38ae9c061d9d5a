"""The plans that the sample has, with the checkpoints and weights that ship."""

from __future__ import annotations

import tomllib

import pytest

from answermill.files.atomic_files import sha256
from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.sample import PLANS, copy_to
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import check_stages, load_plan
from answermill.pipelines.steps.rerank.answers import AnswerRule
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import run_stages
from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile


def test_the_full_plan_runs_the_whole_chain_of_models(tmp_path, sample_run):
    plan = load_plan(load(copy_to(tmp_path).with_name(PLANS["full"])))

    lists = list(ranked_lists(RETRIEVED.open(sample_run).read()))[:1]
    for outcome in run_stages(lists, plan):
        best = outcome.kept.candidates[0]
        stages = [
            "cosinet",
            "complete_sentence",
            "first",
            "cascade",
            "peasi.pr",
            "peasi.easi",
            "similarity",
            "last_of_extracted",
        ]
        assert [score.stage for score in best.stages] == stages and best.kind == "sentence"

        assert len(outcome.kept.candidates) <= 5


def test_the_fast_plan_is_the_default_one_with_fewer_sentences_and_weights_of_its_own(tmp_path):
    job = copy_to(tmp_path)
    default, fast = (
        tomllib.loads(job.with_name(PLANS[plan]).read_text(encoding="utf-8")) for plan in ("default", "fast")
    )
    stages = {stage.get("name", stage["reranker"]): stage for stage in fast["rerank"]["stages"]}
    assert stages["first"].pop("keep") == 25
    for stage, file in (("cascade", "weights/exits_fast.json"), ("last", "weights/last_fast.json")):
        assert stages[stage].pop("weights_file") == file
    for stage in default["rerank"]["stages"]:
        name = stage.get("name", stage["reranker"])
        assert stages[name].items() <= stage.items()
        assert set(stage) - set(stages[name]) <= {"keep", "weights_file"}
    assert {key: fast[key] for key in fast if key != "rerank"} == {
        key: default[key] for key in default if key != "rerank"
    }


def test_the_fast_plan_gives_each_list_at_most_25_sentences(tmp_path, sample_run):
    plan = load_plan(load(copy_to(tmp_path).with_name(PLANS["fast"])))
    lists = list(ranked_lists(RETRIEVED.open(sample_run).read()))[:2]
    for outcome in run_stages(lists, plan):
        kept = outcome.kept.candidates
        read = [c for c in (*kept, *(d.candidate for d in outcome.departed)) if "cascade" in stages_of(c)]
        assert 0 < len(kept) < len(read) <= 25


def stages_of(candidate):
    return {score.stage for score in candidate.stages}


@pytest.mark.parametrize(("name", "without"), [("sure", "default"), ("sure-base", "base")])
def test_a_sure_plan_is_another_one_with_probabilities_and_a_bar_that_its_labels_promise(
    tmp_path, name, without
):
    job = copy_to(tmp_path)
    plain, sure = (
        tomllib.loads(job.with_name(PLANS[plan]).read_text(encoding="utf-8")) for plan in (without, name)
    )
    *before, last = sure["rerank"]["stages"]
    assert before == plain["rerank"]["stages"] and last["reranker"] == "probability"

    # The calibration is of these stages with these files, and its labels promise what the plan asks for.
    calibration = CalibrationFile.read(job.parent / last["calibration_file"])
    for stage, table in zip(calibration.plan, before, strict=True):
        assert (stage.key, stage.reranker) == (table.get("name", table["reranker"]), table["reranker"])
        file = table.get("weights_file")
        assert stage.settings.get("weights_file") == (file and sha256(job.parent / file))
    bar = calibration.bar(sure["rerank"]["answers"]["max_wrong"])
    assert 0 < bar.probability < 1 and bar.p < 0.1 and calibration.labels == "L-dev"


def test_a_sure_plan_declines_below_the_bar_that_it_promises(tmp_path):
    sure = check_stages(load(copy_to(tmp_path).with_name(PLANS["sure"])))
    rule = AnswerRule.of(sure.job, sure.settings)
    assert rule.probability_stage == "probability" and 0 < rule.bar < 1
    assert "% wrong, with confidence 0.9" in rule.promise and rule.promise.endswith("on L-dev")


def test_shipped_weights_are_of_shipped_models(tmp_path):
    """With another model in the plan they would mean nothing, and are refused."""
    job = copy_to(tmp_path)
    check_stages(load(job))
    other = load(job, ["index.encoder_tokens=128", "rerank.stages.0={reranker='overlap', name='cosinet'}"])
    with pytest.raises(
        JobError, match="fitted for another plan: cosinet was a stage of cosinet, and is one of overlap"
    ) as e:
        check_stages(other)
    assert e.value.code == SETTINGS
