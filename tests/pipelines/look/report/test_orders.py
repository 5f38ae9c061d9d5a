"""Histograms do not depend on the order of scores; agreement is SciPy's, and correct candidates end where
they should."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from answermill.pipelines.look.report.agreement import LEAST, Agreements
from answermill.pipelines.look.report.figures import RunReport
from answermill.pipelines.look.report.histogram import BINS, Histogram
from answermill.pipelines.look.report.run_report import read_report
from answermill.pipelines.look.report.scored_blocks import blocks
from answermill.pipelines.specs.rerank import SCORED

Scores = st.lists(st.floats(-1e6, 1e6).map(lambda score: round(score, 6)), max_size=60)


@given(Scores, st.integers(0, 60), st.randoms(use_true_random=False))
def test_a_histogram_is_the_same_in_any_order_and_in_any_pieces(scores, cut, random) -> None:
    whole, pieces, shuffled = Histogram(), Histogram(), list(scores)
    random.shuffle(shuffled)
    whole.add(np.array(scores), np.array(scores) > 0)
    for piece in (shuffled[:cut], shuffled[cut:]):
        pieces.add(np.array(piece), np.array(piece) > 0)
    assert (whole.bins(), whole.width) == (pieces.bins(), pieces.width)
    assert sum(each.went + each.left for each in whole.bins()) == len(scores) and len(whole.bins()) <= BINS
    for each in whole.bins():
        inside = [score for score in scores if each.start <= score < each.start + whole.width]
        assert each.went + each.left == len(inside)


def test_equal_scores_are_one_bin() -> None:
    histogram = Histogram()
    histogram.add(np.ones(5), np.zeros(5, np.bool_))
    assert [(each.start, each.went, each.left) for each in histogram.bins()] == [(1.0, 5, 0)]


@pytest.fixture(scope="module")
def report(small_run: Path) -> RunReport:
    return read_report(small_run)


@pytest.mark.parametrize(
    ("a", "b"), [("cosinet", "complete_sentence"), ("cosinet", "cascade"), ("complete_sentence", "cascade")]
)
def test_two_stages_agree_as_scipy_says(small_run: Path, report: RunReport, a: str, b: str) -> None:
    folder = SCORED.open(small_run)
    lists: dict[str, list[dict[str, int]]] = {}
    for row in folder.read():
        if row.unit == "sentence":
            lists.setdefault(row.question_id, []).append(
                {score.stage: score.rank or 0 for score in row.stages}
            )

    rho, same = [], []
    for ranks in lists.values():
        first_a, first_b = ([n for n, rank in enumerate(ranks) if rank.get(stage) == 1] for stage in (a, b))
        if first_a and first_b:
            same.append(first_a[0] == first_b[0])
        both = [(rank[a], rank[b]) for rank in ranks if rank.get(a) and rank.get(b)]
        if len(both) >= LEAST:
            rho.append(stats.spearmanr(both).statistic)

    (agreement,) = [each for each in report.agreement if (each.a, each.b) == (a, b)]
    assert agreement.questions == len(same) > 10 and agreement.same_first == pytest.approx(np.mean(same))
    assert agreement.spearman == pytest.approx(np.mean(rho)) and len(rho) > 10


def test_orders_that_no_question_shares_have_no_correlation() -> None:
    (only,) = Agreements(("stage",)).result()
    assert (only.questions, only.same_first, only.spearman) == (0, 0.0, None)


def test_a_block_holds_whole_lists_and_every_row_once(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SCORED.open(small_run)
    monkeypatch.setattr("answermill.pipelines.look.report.scored_blocks.ROWS", 50)  # fewer than a list has
    ids: list[str] = []
    for block in blocks(folder, ("cosinet",)):
        assert len(block) == block.begins[-1] and len(block.begins) == len(block.question_ids) + 1
        ids += block.question_ids
    rows = [row.question_id for row in folder.read()]
    assert ids == list(dict.fromkeys(rows)) and len(ids) == 15
