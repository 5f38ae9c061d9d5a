"""A stage's name is only a name, whatever words it has in common with the counts that the stage has."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.look.report.run_report import read_report
from answermill.pipelines.specs.rerank import RERANK, SCORED, StageCounts
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.rerank.rerank import stage_clauses, summary
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import SHAPE, enlarged, tokeniser

TITLES = ("", "Opera", "", "Ballet", "")
WITHOUT, FULL, TAKEN = "a_without_titles", "a_full_b", "a_taken_over_b"


def write_model(folder: Path, reranker: str, reading: Reading, exits: tuple[int, ...]) -> str:
    model = enlarged(CascadeModel(LayeredEncoder(SHAPE), exits))
    model.reading = reading
    cascade_model.save(folder, reranker, model, tokeniser())
    return str(folder)


def candidates(folder: Path) -> Path:
    """A run in which one question is to be reranked, with a candidate for each of TITLES."""
    rows = [
        LabelledCandidate("q", "Who sang?", f"q-{n}", f"d{n}", title, n, f"She sang {n}.", 0)
        for n, title in enumerate(TITLES)
    ]
    folder.mkdir()
    pq.write_table(LabelledCandidate.table(rows), folder / "set.parquet")
    write_candidates([folder / "set.parquet"], folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that takes over what it can of an earlier one of the same plan."""
    folder = tmp_path_factory.mktemp("names")
    titled = write_model(folder / "titled", "cascade", Reading(("sentence", "title")), (1, 2))
    pairs = write_model(folder / "pairs", "pointwise", Reading(("sentence",)), (2,))
    stages = [
        {"reranker": "cascade", "checkpoint": titled, "name": WITHOUT, "keep": 4},
        {"reranker": "cascade", "checkpoint": titled, "name": FULL, "drop": [0.5], "keep": 3},
        {"reranker": "pointwise", "checkpoint": pairs, "name": TAKEN, "keep": 2},
    ]
    former, later = candidates(folder / "former"), candidates(folder / "later")
    for run, since in ((former, None), (later, str(former))):
        job = Job.model_validate({"rerank": {"stages": stages, "since": since}})
        list(run_steps(job, run, ["rerank"], ()))

    return later


def test_each_stage_has_its_counts_under_its_name(run: Path) -> None:
    stages = RERANK.counts_of(SCORED.open(run).manifest).stages
    assert {name: (stage.incoming, stage.outgoing) for name, stage in stages.items()} == {
        WITHOUT: (5, 4),
        FULL: (4, 2),
        TAKEN: (2, 2),
    }
    assert stages[WITHOUT].missing == {"title": 3} and stages[TAKEN].missing == {}
    assert {name: stage.costs.get("taken_over") for name, stage in stages.items()} == {
        WITHOUT: None,
        FULL: None,
        TAKEN: 2,
    }

    assert 0 < stages[FULL].layer_tokens < stages[FULL].full_layer_tokens
    assert stages[WITHOUT].layer_tokens == stages[WITHOUT].full_layer_tokens > 0


def test_the_summary_has_the_clauses_of_each_stage_and_no_other(run: Path) -> None:
    stages = RERANK.counts_of(SCORED.open(run).manifest).stages
    line = summary(run)
    assert line.startswith("rerank     1 question, 5 passages; 5 candidates = 2 kept + 3 dropped; ")
    assert line.endswith("; best answers in answers.jsonl")

    # Everything between the two is of the stages.
    clauses = [re.sub(r"[\d,.]+ m?s\b", "-", clause) for clause in line.split("; ")[2:-1]]
    share = stages[FULL].layer_tokens / stages[FULL].full_layer_tokens
    assert clauses == [
        f"{WITHOUT} took 100% of all layers × tokens, -, - a question",
        f"{WITHOUT}: 3 candidates without title",
        f"{FULL} took {share:.0%} of all layers × tokens, -, - a question",
        f"{FULL}: {stages[FULL].missing['title']} candidates without title",
        f"{TAKEN}: 2 scores taken over",
    ]


def test_a_stage_says_what_it_cut() -> None:
    counts = StageCounts(incoming=3, outgoing=3, costs={"tokens_cut": 1})
    assert list(stage_clauses("pairs", counts, 1)) == ["pairs: 1 token cut, beyond the length that it reads"]


def test_the_report_shows_each_stage_under_its_name(run: Path) -> None:
    stages = RERANK.counts_of(SCORED.open(run).manifest).stages
    shown = {
        stage.name: (stage.came, stage.went, stage.dropped, stage.layer_tokens)
        for stage in read_report(run).stages
    }
    assert shown == {
        WITHOUT: (5, 4, 1, stages[WITHOUT].layer_tokens),
        FULL: (4, 2, 2, stages[FULL].layer_tokens),
        TAKEN: (2, 2, 0, None),
    }
