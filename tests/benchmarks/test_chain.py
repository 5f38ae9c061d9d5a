"""What a plan's figures are of, and how a stage is left out."""

from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage, run_stages, to_passages
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.ranking.rerankers.blend.blend import Blend
from answermill.schemas.labels import LabelledCandidate
from experiments.chain import left_out, not_weighing, others
from experiments.chain_rows import Row, comparison, figures, row_of
from experiments.long_lists import LongList, judged
from experiments.question_sets.gold import Asked

TEXTS = ["the tower is high", "it was built in 1889", "it opened in 1889"]


def long_list(name: str, gold: str, strings: tuple[str, ...] = ()) -> LongList:
    rows = [
        LabelledCandidate(name, "the tower?", f"{name}-{n}", "d", "", n, text, 0)
        for n, text in enumerate(TEXTS)
    ]
    return judged(Asked(name, "the tower?", "Tower", (("d", gold),), strings), to_passages(ranked_list(rows)))


LISTS = [long_list("first", TEXTS[0]), long_list("second", TEXTS[1], ("high",)), long_list("third", TEXTS[2])]


def row(keep: int | None) -> Row:
    plan = [Stage("overlap", Overlap(), keep)]
    return row_of(run_stages([each.passages for each in LISTS], plan), LISTS)


def test_a_row_is_of_the_list_that_the_plan_leaves() -> None:
    assert row(None).p1.tolist() == [1, 0, 0] and row(None).mrr.tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert row(2).mrr.tolist() == [1, 0.5, 0]  # what is dropped is lost
    assert row(None).lenient.tolist() == [1, 1, 0]


def test_figures_are_of_the_questions_with_an_answer_and_of_all() -> None:
    result = figures("default", row(None), asked=6)
    assert result["p1_default"] == pytest.approx(100 / 3) and result["p1_default_of_asked"] == pytest.approx(
        100 / 6
    )
    assert result["p1_default_low"] == 0 and result["p1_default_high"] == 100
    assert result["p1_lenient_default"] == pytest.approx(200 / 3)


def test_a_plan_is_compared_with_the_default() -> None:
    ones, zeros = np.ones(20), np.zeros(20)
    result = comparison("similarity_all", Row(ones, ones, ones), Row(zeros, ones, zeros))
    assert result["p1_gain_over_similarity"] == 100 and float(result["p_default_over_similarity"]) < 0.01
    assert result["mrr_gain_over_similarity"] == 0 and result["mrr_p_default_over_similarity"] == 1


def test_a_blend_does_without_the_stage_that_is_left_out() -> None:
    stages = [
        Stage("overlap", Overlap()),
        Stage("second", Overlap()),
        Stage("blend", Blend({"overlap": 1.0, "second": 2.0})),
    ]
    without = dict(others(stages))
    assert {name: [stage.name for stage in plan] for name, plan in without.items()} == {
        "without_overlap": ["second", "blend"],
        "without_second": ["overlap", "blend"],
        "without_blend": ["overlap", "second"],
    }

    blend = not_weighing(stages[-1], ["second"]).reranker
    assert isinstance(blend, Blend) and blend._sum.names == ("overlap",)
    assert run_stages([LISTS[0].passages], without["without_overlap"])[0].kept.candidates


def test_what_a_stage_keeps_the_stage_before_keeps_if_it_is_left_out() -> None:
    blend = Stage("blend", Blend({"overlap": 1.0}), keep=1)
    stages = [Stage("overlap", Overlap()), blend, Stage("last", Overlap())]
    assert [(stage.name, stage.keep) for stage in left_out(stages, ["blend"])] == [
        ("overlap", 1),
        ("last", None),
    ]
    assert [(stage.name, stage.keep) for stage in left_out(stages, ["last"])] == [
        ("overlap", None),
        ("blend", 1),
    ]
