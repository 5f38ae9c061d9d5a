"""Stages in a job file: each has the keys of its reranker, and a plan's stages fit one another."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.config.input_files import check_files
from answermill.pipelines.config.job_file import Job, keys, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.specs.shipped_plans import PLANS
from answermill.pipelines.steps.job_plan import plan_settings
from answermill.ranking.entry import StageBefore, file_keys
from answermill.ranking.plan import stages_before
from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.cascade import CascadeStage
from answermill.ranking.rerankers.peasi import ExtractorStage

PR, EASI = '[[rerank.stages]]\nreranker = "peasi.pr"\n', '[[rerank.stages]]\nreranker = "peasi.easi"\n'
CASCADE, OVERLAP = '[[rerank.stages]]\nreranker = "cascade"\n', '[[rerank.stages]]\nreranker = "overlap"\n'
SURE = "threshold = 0.5\n"


def job(folder: Path, text: str) -> Job:
    (folder / "job.toml").write_text(text)
    return load(folder / "job.toml")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(JobError) as e:
        plan_settings(job(folder, text))
    assert e.value.code == SETTINGS
    return str(e.value)


def test_a_stage_has_the_keys_of_its_reranker(tmp_path: Path) -> None:
    plan = plan_settings(job(tmp_path, CASCADE + "drop = [0.2, 0.1]\n" + PR + EASI + SURE + OVERLAP)).stages
    assert [stage.key for stage in plan] == ["cascade", "peasi.pr", "peasi.easi", "overlap"]
    assert isinstance(plan[0], CascadeStage) and plan[0].drop == [0.2, 0.1]
    assert isinstance(plan[2], ExtractorStage) and plan[2].threshold == 0.5
    assert set(plan[3].model_dump()) == {"reranker", "name", "keep", "checkpoint"}
    written = job(tmp_path, CASCADE + "drop = [0.2]\n").model_dump()
    assert written["rerank"]["stages"][0]["drop"] == [0.2]  # what decides the output is in the fingerprint


def test_another_reranker_s_key_is_refused_with_the_keys_that_there_are(tmp_path: Path) -> None:
    says = refused(tmp_path, OVERLAP + CASCADE + SURE)
    assert "unknown key rerank.stages.1.threshold" in says
    assert (
        "Known here: reranker, name, keep, checkpoint, weights, weights_file, missing_context, precision, "
        "int8_loss, drop" in says
    )
    says = refused(tmp_path, OVERLAP + "drop = [0.2]\n")
    assert "unknown key rerank.stages.0.drop. Known here: reranker, name, keep, checkpoint" in says
    assert "rerank.stages.0.dorp; did you mean 'drop'?" in refused(tmp_path, CASCADE + "dorp = [0.2]\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CASCADE + "drop = [1.0]\n", "rerank.stages.0.drop.0: Input should be less than 1, not 1.0"),
        (
            PR + EASI + "threshold = 1.5\n",
            "rerank.stages.1.threshold: Input should be less than or equal to 1, not 1.5",
        ),
        (
            PR + EASI + "threshold = -0.1\n",
            "rerank.stages.1.threshold: Input should be greater than or equal to 0, not -0.1",
        ),
        (
            PR + EASI + 'threshold = "high"\n',
            "rerank.stages.1.threshold: Input should be a valid number, not 'high'",
        ),
        (PR + "keep = 0\n", "rerank.stages.0.keep: Input should be greater than or equal to 1, not 0"),
        (
            CASCADE + "weights = {exit = 1.0}\n",
            "rerank.stages.0: weights decide who leaves",
        ),
        ("[[rerank.stages]]\nkeep = 5\n", "rerank.stages.0.reranker is missing"),
        ("[rerank]\nstages = [5]\n", "rerank.stages.0: Input should be a valid dictionary"),
        ("[rerank]\nstages = []\n", "rerank.stages: List should have at least 1 item"),
        (
            '[[rerank.stages]]\nreranker = "cascad"\n',
            "rerank.stages.0: unknown reranker 'cascad'; did you mean 'cascade'?",
        ),
    ],
)
def test_a_wrong_stage_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text)


def test_every_reranker_s_keys_are_listed_with_its_name() -> None:
    listed = {key: meaning for key, _, _, meaning in keys()}
    assert listed["rerank.stages[].drop"].startswith(
        "cascade, multihead, sequential: share of the candidates"
    )
    assert listed["rerank.stages[].threshold"].startswith("peasi.easi: least confidence")
    assert listed["rerank.stages[].keep"].startswith("candidates kept")


def test_reading_a_job_file_imports_neither_torch_nor_a_reranker(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(CASCADE + PR + EASI + SURE)
    code = (
        "import sys; from pathlib import Path; from answermill.pipelines.config.job_file import load, keys; "
        f"load(Path({str(tmp_path / 'job.toml')!r})); list(keys()); "
        "heavy = ('torch', 'transformers', 'spacy', 'apache_beam', 'faiss'); "
        "print([name for name in (*heavy, 'answermill.ranking.rerankers.cascade.cascade') "
        "if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_a_threshold_needs_a_stage_of_peasi_pr_before(tmp_path: Path) -> None:
    for between in ("", '[[rerank.stages]]\nreranker = "overlap"\nname = "again"\n'):
        assert plan_settings(job(tmp_path, PR + "keep = 9\n" + between + EASI + SURE))
    assert plan_settings(job(tmp_path, EASI))  # without a threshold it needs no scores


@pytest.mark.parametrize(
    ("stages", "stage"), [(EASI + SURE, 0), (EASI + SURE + PR, 0), (OVERLAP + EASI + SURE, 1)]
)
def test_a_threshold_that_no_confidence_stands_for_is_refused(
    tmp_path: Path, stages: str, stage: int
) -> None:
    says = refused(tmp_path, stages)
    assert f"rerank.stages.{stage}: `threshold` of peasi.easi needs passages that peasi.pr has scored" in says
    assert "put a stage of peasi.pr before this one" in says


def test_the_scores_of_a_renamed_stage_are_found_by_its_reranker(tmp_path: Path) -> None:
    text = PR + 'name = "first"\n' + PR + 'name = "second"\n' + EASI + 'name = "answers"\n' + SURE
    plan = plan_settings(job(tmp_path, text)).stages
    first, second = StageBefore("first", "peasi.pr"), StageBefore("second", "peasi.pr")
    assert [
        tuple(replace(s, settings="", defaults="") for s in before) for before in stages_before(plan)
    ] == [
        (),
        (first,),
        (first, second),
    ]
    resources = Resources(
        settings=plan[2],
        checkpoint=None,
        encoder=lambda: pytest.fail("no encoder is needed"),
        before=(first, second),
    )
    assert resources.scored_by("peasi.pr") == "second"

    named_alike = '[[rerank.stages]]\nreranker = "overlap"\nname = "peasi.pr"\n'
    before = stages_before(plan_settings(job(tmp_path, named_alike + EASI)).stages)
    assert (
        Resources(settings=plan[2], checkpoint=None, encoder=lambda: None, before=before[1]).scored_by(
            "peasi.pr"
        )
        is None
    )


def test_a_plan_by_name_is_the_sample_s_with_fitted_files_that_ship(tmp_path: Path) -> None:
    for name, file in PLANS.items():
        named = job(tmp_path, f'[rerank]\nplan = "{name}"\n')
        own = load(copy_to(tmp_path / "sample").with_name(file))
        assert named.rerank is not None and own.rerank is not None
        pairs = list(zip(named.rerank.stages, own.rerank.stages, strict=True))
        for stage, written in pairs:
            for key in file_keys(type(written)):
                if getattr(written, key):
                    shipped, copied = named.path(getattr(stage, key)), own.path(getattr(written, key))
                    assert shipped.read_bytes() == copied.read_bytes()
        assert [s.model_dump(exclude=set(file_keys(type(s)))) for s, _ in pairs] == [
            s.model_dump(exclude=set(file_keys(type(s)))) for _, s in pairs
        ]
        assert "plan" not in named.model_dump()["rerank"], "the stages decide the rows, not the name"


def test_stages_of_a_plan_by_name_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('[rerank]\nplan = "default"\n')
    changed = load(file, ["rerank.stages.2.keep=7", "rerank.plan=full"]).rerank
    assert changed is not None and changed.stages[2].keep == 7
    assert [stage.key for stage in changed.stages][4:6] == ["peasi.pr", "peasi.easi"]
    with pytest.raises(JobError, match="no item '9'; the job has 6"):
        load(file, ["rerank.stages.9.keep=7"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[rerank]\nplan = "deflaut"\n',
            "no plan 'deflaut' ships; did you mean 'default'? There are default, ",
        ),
        ('[rerank]\nplan = "full"\n' + OVERLAP, "`plan` and `stages` are both given; leave one out"),
    ],
)
def test_a_plan_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text)


def test_a_fitted_file_of_another_name_is_refused_with_those_that_ship(tmp_path: Path) -> None:
    named = job(tmp_path, '[[rerank.stages]]\nreranker = "blend"\nweights_file = "shipped:frist"\n')
    with pytest.raises(JobError, match="'shipped:frist' ships; there are shipped:exits, ") as e:
        check_files(named, ["rerank"])
    assert e.value.code == SETTINGS
