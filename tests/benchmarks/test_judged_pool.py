"""Best sentences of L-test that count as wrong: what is judged, and what their figures are of."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from answermill.ranking.plan import Stage
from answermill.ranking.rerankers.baselines.overlap import Overlap
from docs.generate import saved
from experiments.judged_pool import (
    PLACE,
    SHEET,
    best_of,
    figures,
    judged_gain,
    place_of,
    sheet_cells,
    values,
    write_sheet,
)
from testing.judgements import agreement, read_judgements
from tests.benchmarks.test_chain import LISTS, TEXTS

PLAN = [Stage("overlap", Overlap())]


def test_what_was_saved_is_of_the_sheet_and_nothing_is_unjudged() -> None:
    judgements, result = read_judgements(SHEET, PLACE), saved("judged_pool")
    assert result["unjudged"] == 0 and result["judged"] == len(judgements)
    assert result["judged_right"] == sum(row.label for row in judgements)
    assert result["kappa"] == pytest.approx(agreement(judgements).value, abs=1e-4)


def test_the_sheet_has_whole_readings_that_differ_now_and_then() -> None:
    judgements = read_judgements(SHEET, PLACE)
    assert len({row.place[0] for row in judgements}) > 100 and 10 < sum(row.label for row in judgements) < 60
    assert 0.9 < (agreement(judgements).value or 0) < 1


def test_a_sheet_names_sentences_without_their_texts() -> None:
    for row in read_judgements(SHEET, PLACE):
        question_id, sentence_id, digest = row.place
        assert ":" in question_id and sentence_id.partition("@")[2].isdigit() and len(digest) == 32


def test_a_first_sentence_is_right_by_its_label_or_by_its_judgement() -> None:
    best = best_of(PLAN, LISTS, 2)
    first = best["third"][0]
    assert first.text == TEXTS[0] and first.candidate_id not in LISTS[2].gold
    right = {place_of("third", first): True, place_of("second", best["second"][0]): False}
    labelled, judged = values(best, LISTS, right)
    assert labelled.tolist() == [1, 0, 0] and judged.tolist() == [1, 0, 1]
    assert values(best, LISTS, right, 2)[0].tolist() == [1, 1, 0]  # the second one's second sentence
    assert values({**best, "third": ()}, LISTS, right)[1].tolist() == [1, 0, 0]  # a list that is left empty


def test_the_share_of_the_wrong_ones_that_are_right_has_its_interval() -> None:
    labelled, judged = np.array([1.0] * 6 + [0.0] * 4), np.array([1.0] * 7 + [0.0] * 3)
    result = figures("default", labelled, judged)
    assert result["wrong_default"] == 4 and result["wrong_but_right_default"] == 25
    low, high = (float(result[f"wrong_but_right_default_{end}"]) for end in ("low", "high"))
    assert low == pytest.approx(4.56, abs=0.01) and high == pytest.approx(69.94, abs=0.01)  # Wilson, 1 of 4
    assert result["p1_default"] == 60 and result["p1_judged_default"] == 70
    assert judged_gain("other", labelled, judged)["p1_judged_gain_over_other"] == pytest.approx(10)


def test_a_plan_without_a_wrong_one_has_no_share() -> None:
    ones = np.ones(3)
    assert figures("default", ones, ones)["wrong_but_right_default"] == 0


def test_what_is_to_be_judged_is_written_without_score_rank_and_label(tmp_path: Path) -> None:
    [best] = best_of(PLAN, LISTS, 1)["third"]
    write_sheet(tmp_path / "sheet", [sheet_cells(place_of("third", best), "the tower?", best)])
    with (tmp_path / "sheet").open(encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file, delimiter="\t")
    assert list(row) == [*PLACE, "question", "title", "before", "sentence", "after"]
    assert (row["question"], row["sentence"], row["before"]) == ("the tower?", TEXTS[0], "")
