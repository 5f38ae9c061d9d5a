"""A plan in words: what each stage reads, keeps and costs, before any work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.look.estimate.plan_in_words import _WORDS, after_exits, stages_in_words
from answermill.pipelines.look.estimate.rates import Rates
from answermill.pipelines.specs.shipped_plans import PLANS
from answermill.ranking.rerankers.registry import RERANKERS
from testing.command import call

JOB = '[retrieve]\nquestions = "missing.tsv"\ndepth = 20\n[rerank]\nplan = "{plan}"\n'


def job_file(folder: Path, plan: str = "default") -> Path:
    (folder / "job.toml").write_text(JOB.format(plan=plan))
    return folder / "job.toml"


def test_every_reranker_of_ours_has_words() -> None:
    assert _WORDS.keys() == RERANKERS.keys()


def test_candidates_are_counted_by_the_settings(tmp_path: Path) -> None:
    stages = {stage.key: stage for stage in stages_in_words(load(job_file(tmp_path)))}
    assert stages["cosinet"].incoming == 40 * 6.5 and stages["first"].outgoing == 60
    assert stages["cascade"].incoming == 60 and stages["cascade"].outgoing == pytest.approx(60 * 0.8**4)
    assert stages["last"].incoming == stages["last"].outgoing == stages["cascade"].outgoing
    assert stages["cascade"].megabytes > 1 > stages["first"].megabytes == 0


def test_passages_are_as_many_as_there_are_at_most(tmp_path: Path) -> None:
    stages = {stage.key: stage for stage in stages_in_words(load(job_file(tmp_path, "full")))}
    assert (stages["peasi.pr"].reads, stages["peasi.pr"].outgoing) == ("passages", 5)
    assert (stages["peasi.easi"].incoming, stages["similarity"].incoming) == (5, 5)


def test_the_cost_of_a_cascade_is_that_of_the_layers_that_are_passed() -> None:
    assert after_exits(128, [4, 6, 8, 10, 12], [0.0] * 4) == (128, 1.0)
    left, share = after_exits(100, [2, 3, 4, 5, 6], [0.2] * 4)
    assert left == pytest.approx(100 * 0.8**4)
    assert share == pytest.approx((2 + 0.8 + 0.8**2 + 0.8**3 + 0.8**4) / 6)


@pytest.mark.parametrize("plan", [name for name in PLANS if name not in ("base", "sure-base")])
def test_the_command_says_it_without_a_page_or_a_question(
    plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("plan", job_file(tmp_path, plan), "--explain-plan") == 0
    said = capsys.readouterr().out
    assert "up to 40 passages: 20 from each of bm25 and dense" in said
    kept = 25 if plan == "fast" else 60
    assert " 1 cosinet: orders by word vectors" in said and f"the best {kept} stay" in said
    assert "% of what all candidates through all 6 layers cost" in said


def test_rates_of_a_machine_add_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Rates("a machine", {"rerank cascade": 0.001}, {}).save(tmp_path / "rates.json")
    assert json.loads((tmp_path / "rates.json").read_text())["item"] == {"rerank cascade": 0.001}
    file = job_file(tmp_path)
    assert call("plan", file, "--explain-plan", "--rates", tmp_path / "rates.json") == 0
    assert "60 ms" in capsys.readouterr().out
    assert call("plan", file, "--explain-plan", "--json") == 2
    assert "--explain-plan runs nothing" in capsys.readouterr().err
