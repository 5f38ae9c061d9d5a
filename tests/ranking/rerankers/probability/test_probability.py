"""Probabilities keep the order, and a calibration is refused in any plan but its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answermill.ranking.entry import StageBefore
from answermill.ranking.evaluation.calibration import Calibration
from answermill.ranking.plan import stages_before
from answermill.ranking.rerankers.probability.calibrating import calibrate
from answermill.ranking.rerankers.probability.calibration_file import CalibrationFile, PlanStage, _difference
from answermill.ranking.rerankers.probability.confidence_features import feature_names, list_features
from answermill.ranking.rerankers.probability.probability import Probability, probabilities
from answermill.ranking.rerankers.registry import find, load_reranker
from tests.ranking.rerankers.probability.labelled_lists import PLAN, STAGES, drawn, ranked_list

BEFORE = tuple(StageBefore(s.key, s.reranker, s.model, json.dumps(s.settings)) for s in PLAN)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibration") / "calibration.json"
    calibrate(drawn(200), PLAN, "labels.tsv", "0").write(path)
    return path


def test_features_are_leads_agreement_and_scores() -> None:
    assert feature_names(STAGES) == ("lead", "mean_lead", "agreement", "words", "model")
    rows = list_features(ranked_list("q", (0.2, 4.0), (0.8, 1.0), (0.2, 1.0)), STAGES)
    assert rows.tolist() == [
        [3.0, 2.0, 0.5, 0.2, 4.0],
        [-3.0, -1.0, 0.5, 0.8, 1.0],
        [-3.0, -1.0, 0.0, 0.2, 1.0],
    ]
    assert list_features(ranked_list("q", (0.2, 4.0)), STAGES).tolist() == [[0.0, 0.0, 1.0, 0.2, 4.0]]


def test_the_order_stays_and_no_probability_is_above_the_one_before() -> None:
    second_likes_words = Calibration((0.0, 0.0, 0.0, 3.0, 1.0), -2.0)
    ranked = ranked_list("q", (0.0, 3.0), (1.0, 2.0), (0.0, 1.0))
    values = probabilities(ranked, second_likes_words, STAGES)
    raw = second_likes_words(list_features(ranked, STAGES))
    assert raw[1] > raw[0] and values.tolist() == [raw[0], raw[0], raw[2]]
    (result,) = Probability(second_likes_words, STAGES).rerank([ranked])
    assert [c.candidate_id for c in result.candidates] == [c.candidate_id for c in ranked.candidates]
    np.testing.assert_allclose([c.score for c in result.candidates], values, atol=1e-6)


def test_a_file_goes_through_json_line_by_line(file: Path) -> None:
    content = CalibrationFile.read(file)
    content.write(file.with_name("again.json"))
    assert file.with_name("again.json").read_bytes() == file.read_bytes()
    assert len(file.read_text().splitlines()) == len(CalibrationFile.model_fields) + 2
    assert content.questions == 200 and 30 < content.without_answer < 90


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ((), "of the stages words, model, and here are none before it"),
        (BEFORE[::-1], "of the stages words, model, and here are model, words before it"),
        (
            (replace(BEFORE[0], reranker="cosinet"), BEFORE[1]),
            "words had the reranker overlap, and has cosinet",
        ),
        (
            (BEFORE[0], replace(BEFORE[1], model="xyz")),
            "model had another model .*digest was abc, and is xyz.",
        ),
        ((replace(BEFORE[0], settings='{"keep": 5}'), BEFORE[1]), "words had keep = 9, and has 5"),
    ],
)
def test_a_calibration_of_another_plan_is_refused(
    file: Path, before: tuple[StageBefore, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=f"is of another plan: {says}; run `answermill calibrate`"):
        load_reranker("probability", before=before, calibration_file=str(file))
    assert load_reranker("probability", before=BEFORE, calibration_file=str(file)).name == "probability"


def test_a_key_that_came_after_the_file_has_its_default() -> None:
    def before(**settings: object) -> StageBefore:
        stage = find("cascade").stage(drop=[0.3], **settings)
        return stages_before([stage, stage], {"cascade": "abc"})[1][0]

    recorded = {key: value for key, value in json.loads(before().settings).items() if key != "precision"}
    known = PlanStage(key="cascade", reranker="cascade", model="abc", settings=recorded)
    assert _difference(known, before()) == ""
    assert _difference(known, before(int8_loss=1.0)) == "", "it refuses, and decides no score"
    assert _difference(known, before(precision="int8")) == "precision = auto, and has int8"
    assert _difference(known, before(keep=5)) == "keep = None, and has 5"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "format: Input should be 1"),
        ({"weights": [1.0]}, "the features are not those of the plan's stages"),
        ({"bias": None}, "bias: Input should be a valid number"),
        ({"fitted": {"probability": [1.5], "right": [1], "answerable": [1]}}, "fitted.probability.0: "),
        ({"fitted": {"probability": [0.5], "right": [], "answerable": [1]}}, "differ in length"),
    ],
)
def test_a_damaged_file_is_refused(file: Path, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(ValueError, match=f"c.json is no calibration: .*{says}.*; calibrate again"):
        CalibrationFile.read(tmp_path / "c.json")
    with pytest.raises(ValueError, match="give one that `answermill calibrate` wrote"):
        CalibrationFile.read(tmp_path / "none.json")


def test_labels_without_unanswerable_questions_promise_nothing() -> None:
    content = calibrate(drawn(100, unanswerable=0.0), PLAN, "labels.tsv", "0")
    with pytest.raises(ValueError, match=r"labels\.tsv: each of the 100 questions has an answer"):
        content.bar(0.3)
