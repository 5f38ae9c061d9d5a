"""A rerank that takes over the scores of an earlier run has the rows of one that computes them all, and does
less."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, JobError
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED, StageCounts
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.job_plan import plan_settings
from answermill.pipelines.steps.rerank.rerank import foresee
from answermill.pipelines.steps.since.earlier_scores import computed_again
from answermill.ranking.rerankers.registry import RERANKERS
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import checkpoint, write_dense

QUESTIONS, SENTENCES = 6, 8


def candidates(folder: Path, day: int) -> Path:
    """Day 1 has two sentences more than day 0, another title for a page, and a sentence that was
    rewritten."""
    rows = []
    for q in range(QUESTIONS):
        for n in range(SENTENCES + 2 * day):
            text = f"Answer {q * n} is {'old' if not (day and n == 3) else 'rewritten'}, number {n}."
            title = f"Page {n // 4}" + (", moved" if day and n // 4 == 1 and q == 0 else "")
            rows.append(
                LabelledCandidate(
                    f"q{q}", f"What is answer {q}?", f"q{q}c{n}", f"q{q}d{n // 4}", title, n, text, 0
                )
            )

    folder.mkdir(exist_ok=True)
    pq.write_table(LabelledCandidate.table(rows), folder / f"day{day}.parquet")
    write_candidates([folder / f"day{day}.parquet"], folder / f"run{day}")
    return folder / f"run{day}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("pointwise", "cross_encoder", "bi_encoder", "cascade", "peasi"):
        checkpoint(name, folder / name)
    write_dense(folder / "encoder")
    write_dense(folder / "other", seed=1)
    return folder


def job(
    models: Path, stages: list[dict[str, Any]], since: Path | None = None, encoder: str = "encoder"
) -> Job:
    rerank: dict[str, Any] = {"stages": stages} | ({"since": str(since)} if since else {})
    return Job.model_validate({"index": {"encoder": str(models / encoder)}, "rerank": rerank})


def plan(models: Path) -> list[dict[str, Any]]:
    """All kinds of stages: those that score pairs, with each kind of context, and one that prunes lists."""
    around = ["previous", "sentence", "next"]
    return [
        {"reranker": "similarity", "context": ["title", "sentence"]},
        {
            "reranker": "cross_encoder",
            "checkpoint": str(models / "cross_encoder"),
            "context": around,
            "keep": 7,
        },
        {"reranker": "cascade", "checkpoint": str(models / "cascade"), "drop": [0.2]},
        {"reranker": "pointwise", "checkpoint": str(models / "pointwise"), "name": "last", "keep": 3},
    ]


def rows(run: Path) -> list[Any]:
    return [list(folder.open(run).read()) for folder in (SCORED, ANSWERS)]


def counts(run: Path) -> Mapping[str, StageCounts]:
    return RERANK.counts_of(SCORED.open(run).manifest).stages


def taken_over(run: Path) -> dict[str, int]:
    return {
        name: stage.costs["taken_over"] for name, stage in counts(run).items() if "taken_over" in stage.costs
    }


def rerank(job: Job, run: Path) -> str:
    return next(run_steps(job, run, ["rerank"], ()))


def test_the_rows_are_those_of_a_run_from_nothing_and_what_was_taken_over_is_counted(
    models: Path, tmp_path: Path
) -> None:
    former, anew, updated = candidates(tmp_path, 0), candidates(tmp_path / "anew", 1), candidates(tmp_path, 1)
    rerank(job(models, plan(models)), former)
    rerank(job(models, plan(models)), anew)
    line = rerank(job(models, plan(models), former), updated)
    assert rows(updated) == rows(anew) and len(rows(anew)[0]) == QUESTIONS * (SENTENCES + 2)
    taken = taken_over(updated)
    came = {stage: counts(updated)[stage].incoming for stage in taken}
    assert set(taken) == {"similarity", "cross_encoder", "last"} and taken_over(anew) == {}

    # Of a question's 10 sentences 2 are new and 1 is rewritten; in one question 4 others have another title.
    assert taken["similarity"] == 7 * QUESTIONS - 4
    assert 0 < taken["cross_encoder"] < taken["similarity"], "neighbours of what changed are read as well"
    assert all(0 < taken[stage] < came[stage] for stage in taken)
    assert counts(updated)["last"].costs["candidates"] == came["last"] - taken["last"], (
        "the others were scored, and no more"
    )
    assert f"similarity: {taken['similarity']} scores taken over" in line


def test_the_same_candidates_are_not_scored_at_all(models: Path, tmp_path: Path) -> None:
    former, again = candidates(tmp_path, 0), candidates(tmp_path / "again", 0)
    rerank(job(models, plan(models)), former)
    rerank(job(models, plan(models), former), again)
    assert rows(again) == rows(former)
    assert all(n == counts(again)[stage].incoming for stage, n in taken_over(again).items())
    assert {counts(again)[stage].costs.get("candidates", 0) for stage in ("cross_encoder", "last")} == {0}


def test_peasi_takes_over_what_it_said_of_passages_that_are_the_same(models: Path, tmp_path: Path) -> None:
    checkpoint = str(models / "peasi")
    stages: list[dict[str, Any]] = [
        {"reranker": "peasi", "checkpoint": checkpoint},
        {"reranker": "peasi.pr", "checkpoint": checkpoint, "keep": 1},
        {"reranker": "peasi.easi", "checkpoint": checkpoint},
    ]
    former, anew, updated = candidates(tmp_path, 0), candidates(tmp_path / "anew", 1), candidates(tmp_path, 1)
    rerank(job(models, stages), former)
    rerank(job(models, stages), anew)

    rerank(job(models, stages, former), updated)
    assert rows(updated) == rows(anew)
    # Of a question's three passages the first has a sentence that was rewritten, and the third is new.
    assert taken_over(updated) == {"peasi.pr": QUESTIONS}


def test_scores_from_before_a_stage_that_reads_passages_are_not_taken_over(
    models: Path, tmp_path: Path
) -> None:
    """There a sentence that was extracted has the score of the best one of its passage."""
    alone = [{"reranker": "pointwise", "checkpoint": str(models / "pointwise")}]
    peasi = [{"reranker": name, "checkpoint": str(models / "peasi")} for name in ("peasi.pr", "peasi.easi")]
    former, anew, updated = (
        candidates(tmp_path, 0),
        candidates(tmp_path / "anew", 0),
        candidates(tmp_path / "again", 0),
    )
    rerank(job(models, [*alone, *peasi]), former)
    rerank(job(models, alone), anew)
    rerank(job(models, alone, former), updated)
    assert rows(updated) == rows(anew) and taken_over(updated) == {}


def test_another_model_another_context_or_another_encoder_takes_nothing_over(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    former = candidates(tmp_path, 0)
    similar = [{"reranker": "similarity", "context": ["title", "sentence"]}]
    crossed = [{"reranker": "cross_encoder", "checkpoint": str(models / "cross_encoder")}]
    rerank(job(models, similar + crossed), former)
    others = {
        "context": job(models, [{"reranker": "similarity"}], former),
        "encoder": job(models, similar, former, "other"),
        "model": job(models, [{"reranker": "bi_encoder", "checkpoint": str(models / "encoder")}], former),
        "kind": job(models, [{"reranker": "overlap"}], former),
        "precision": job(models, [{**crossed[0], "precision": "int8", "int8_loss": "any"}], former),
    }

    for name, other in others.items():
        run = candidates(tmp_path / name, 0)
        rerank(other, run)
        assert not taken_over(run)
        assert f"rerank.since: no stage of {former} has scores for this plan" in capsys.readouterr().err

    renamed = candidates(tmp_path / "renamed", 0)
    rerank(job(models, [{**similar[0], "name": "cosine", "keep": 5}], former), renamed)
    assert taken_over(renamed) == {"cosine": QUESTIONS * SENTENCES}, "a name and a bound decide no score"


def test_it_says_which_stages_never_take_scores_over_and_why(models: Path) -> None:
    plan = [
        {"reranker": "complete_sentence"},
        {"reranker": "cascade", "checkpoint": str(models / "pointwise")},
    ]
    never = computed_again(plan_settings(job(models, [{"reranker": "cosinet"}, *plan])).stages)
    assert never.startswith("cosinet and cascade never take scores over: they depend on the list")
    assert computed_again(plan_settings(job(models, [{"reranker": "similarity"}])).stages) == ""
    assert foresee(job(models, [{"reranker": "overlap"}, *plan[1:]], models)).startswith(
        "reranks by overlap, cascade; cascade never takes scores over"
    )


def test_since_decides_no_row_so_a_complete_run_stays(models: Path, tmp_path: Path) -> None:
    former, run = candidates(tmp_path, 0), candidates(tmp_path / "other", 0)
    for each in (former, run):
        rerank(job(models, plan(models)), each)
    assert rerank(job(models, plan(models), former), run).endswith("(complete)")


def test_a_run_without_scores_and_the_run_itself_are_refused(models: Path, tmp_path: Path) -> None:
    run = candidates(tmp_path, 0)
    with pytest.raises(JobError, match="is the run itself") as e:
        rerank(job(models, plan(models), run), run)
    assert e.value.code == SETTINGS
    with pytest.raises(JobError) as e:
        rerank(job(models, plan(models), candidates(tmp_path / "bare", 0)), run)
    assert e.value.code == INPUT_MISSING


def test_what_scores_pairs_alone_is_said_by_the_registry() -> None:
    assert {name for name, entry in RERANKERS.items() if entry.pairwise} == {
        "similarity",
        "bi_encoder",
        "cross_encoder",
        "late_interaction",
        "pointwise",
        "peasi",
        "peasi.pr",
    }
