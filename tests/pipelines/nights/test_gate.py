"""The gate of a night refuses what is worse beyond chance, and nothing that nobody has judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.errors import JobError
from answermill.pipelines.nights.gate import Bars, GateFigure, measure
from answermill.pipelines.specs.propagate import PROPAGATE, PropagateCounts
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED, RerankCounts, StageCounts
from answermill.schemas.labels import SentenceLabel
from answermill.schemas.ranked import Answer
from tests.pipelines.look.report.written_run import commit, passage, write_run

QUESTIONS = [f"q{n:02d}" for n in range(12)]
RIGHT, WRONG, NEW = "d@7", "d@70", "e@0"
"""Sentences: two that people have judged, and one of a page that came with a new crawl."""


def judged(run: Path, lists: Mapping[str, Sequence[str]]) -> Path:
    """A run with these ranked sentences of each question, and the labels of RIGHT and WRONG."""
    base = write_run(run.with_name(f"{run.name}-base"), "Why?", passage("So."))
    (row,) = SCORED.open(base).read()
    rows = [
        replace(row, question_id=q, question=f"Why {q}?", candidate_id=sentence, text=sentence, rank=n)
        for q, sentences in lists.items()
        for n, sentence in enumerate(sentences, 1)
    ]
    answers = [Answer(q, f"Why {q}?", ranked[0] if ranked else None) for q, ranked in lists.items()]
    kept = len(rows)
    counts = RerankCounts(
        questions=len(lists),
        passages=1,
        candidates=kept,
        kept=kept,
        stages={name: StageCounts(incoming=kept, outgoing=kept) for name in ("first", "last")},
    )
    plan = [{"reranker": "overlap", "name": stage, "keep": None} for stage in ("first", "last")]
    commit(run, RERANK, {SCORED.name: rows, ANSWERS.name: answers}, counts, stages=plan)

    labels = [
        SentenceLabel(q, sentence, "d", sentence, int(sentence == RIGHT))
        for q in lists
        for sentence in (RIGHT, WRONG)
    ]
    used = PropagateCounts(labels=len(labels), used=len(labels), sentences=len(labels))
    commit(run, PROPAGATE, {"labels/sentences": labels}, used)
    return run


@pytest.fixture
def former(tmp_path: Path) -> Path:
    return judged(tmp_path / "former", {q: [RIGHT, WRONG] for q in QUESTIONS})


def by_name(figures: Sequence[GateFigure]) -> dict[str, GateFigure]:
    return {figure.name: figure for figure in figures}


def test_new_answers_that_nobody_has_judged_are_no_loss(former: Path, tmp_path: Path) -> None:
    """A third of the first answers is of new pages: by all of them P@1 would have fallen by a third."""
    new = judged(
        tmp_path / "new",
        {q: [NEW, RIGHT, WRONG] if n < 4 else [RIGHT, WRONG] for n, q in enumerate(QUESTIONS)},
    )
    figures = by_name(measure(former, new, Bars()))
    assert figures["loss"].value == 0 and figures["changed"].value == pytest.approx(1 / 3)
    assert not any(figure.is_over for figure in figures.values())
    assert "100.0% → 100.0% over 12 questions" in figures["loss"].text
    assert (new / "compared.html").is_file(), "with both answers of each question that changed"


def test_a_run_none_of_whose_candidates_is_judged_has_no_loss(former: Path, tmp_path: Path) -> None:
    new = judged(tmp_path / "new", {q: [NEW] for q in QUESTIONS})
    figures = by_name(measure(former, new, Bars()))
    assert "loss" not in figures and figures["changed"].value == 1


def test_a_loss_is_refused_only_beyond_the_margin_and_beyond_chance(former: Path, tmp_path: Path) -> None:
    over = {}
    for losses in (2, 8):
        ranked = {q: [WRONG, RIGHT] if n < losses else [RIGHT, WRONG] for n, q in enumerate(QUESTIONS)}
        new = judged(tmp_path / f"new{losses}", ranked)
        for margin in (0.02, 0.9):
            figures = by_name(measure(former, new, Bars(margin=margin, changed=1.0)))
            assert figures["loss"].value == pytest.approx(losses / 12)
            over[losses, margin] = figures["loss"].is_over
    assert over == {(2, 0.02): False, (2, 0.9): False, (8, 0.02): True, (8, 0.9): False}


def test_runs_without_labels_are_measured_by_answers_rows_and_rejects(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "Why?", passage("Because."))
    b = write_run(tmp_path / "b", "Why?", passage("Otherwise."), reason="language")
    figures = by_name(measure(a, b, Bars()))
    assert figures.keys() >= {"changed", "fall.passages", "fall.scored", "fall.answered questions"}
    assert "loss" not in figures
    over = {name for name, figure in figures.items() if figure.is_over}
    assert over == {"changed", "rejects.ingest.language"}
    assert figures["rejects.ingest.language"].text == "language refuses 0.0% → 50.0% of the pages of ingest"
    assert not any(figure.is_over for figure in measure(a, b, Bars(changed=1.0, rejects=0.5)))


def test_runs_of_other_questions_are_refused_and_can_be_let_pass(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "Why?", passage("Because."))
    b = write_run(tmp_path / "b", "When?", passage("Because."), question_id="r")
    figures = by_name(measure(a, b, Bars()))
    assert figures["changed"].is_over and figures["changed"].text == "the runs have no question in common"
    assert not by_name(measure(a, b, Bars(changed=1.0)))["changed"].is_over


@pytest.mark.parametrize(
    ("bars", "says"),
    [
        (Bars(metric="Q@1"), "--metric: "),
        (Bars(margin=2), "--margin 2: give a number from 0 to 1"),
        (Bars(fall=-1), "--max-fall -1: give a number from 0 to 1"),
    ],
)
def test_bars_are_looked_at_before_any_work(bars: Bars, says: str) -> None:
    with pytest.raises(JobError, match=f"^{says}"):
        bars.check()
