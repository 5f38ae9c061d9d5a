"""The studies that repeat a paper's tables as it has them: what they learn from, choose and keep."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.arrays import Floats
from answermill.schemas.labels import LabelledCandidate
from experiments import cosinet_passages, hashing_quality, multihead_paper
from experiments import cosinet_quality_squad_full as squad_full
from experiments.cosinet_quality_squad_full import Data, Measured, Run, held_out, once, runs, scored, summary
from experiments.exit_rows import Row
from experiments.multihead_trainings import Lesson


def question(name: str, texts: list[str], right: int = 0) -> list[LabelledCandidate]:
    return [
        LabelledCandidate(name, "who wrote the book", f"c{n}", "d", "", n, text, int(n == right))
        for n, text in enumerate(texts)
    ]


def test_a_tenth_of_the_questions_is_held_out_whatever_their_order() -> None:
    lists = [question(f"q{n}", ["a", "b"]) for n in range(40)]
    learn, dev = held_out(lists)
    assert len(dev) == 4 and sorted(learn + dev, key=lists.index) == lists
    assert {rows[0].question_id for rows in held_out(lists[::-1])[1]} == {rows[0].question_id for rows in dev}


def test_all_rows_have_a_first_seed_before_one_has_a_second() -> None:
    order = [(run.row, run.seed) for run in runs(("cosinet", "compare_aggregate"), None)]
    assert order[:6] == [(f"{prefix}{form}", 0) for prefix in ("", "ca_") for form in squad_full.FORMS]
    assert order[6:] == [(form, seed) for seed in (1, 2) for form in squad_full.FORMS]
    assert [run.seed for run in runs(("cosinet",), 1)] == [0, 0, 0]


def test_what_this_revision_has_measured_is_not_measured_again(tmp_path: Path) -> None:
    measures = iter([Measured({"p1": [1.0]}, {"score_s": 2.0}), Measured({"p1": [0.0]}, {"score_s": 3.0})])
    file = tmp_path / "list-0.json"
    first = once(file, lambda: next(measures))
    assert once(file, lambda: next(measures)) == first
    file.write_text(json.dumps(json.loads(file.read_text()) | {"revision": "another"}), encoding="utf-8")
    assert once(file, lambda: next(measures)).values == {"p1": [0.0]}


def test_scores_are_those_of_the_rows_though_the_reranker_moves_them() -> None:
    lists = [question("q0", ["rain fell", "she wrote the book"], 1), question("q1", ["he wrote", "sun"], 1)]
    measured = scored(lists, load_reranker("overlap"), [ranked_list(rows) for rows in lists])
    assert measured.values == {"p1": [1.0, 0.0], "mrr": [1.0, 0.5]} and measured.seconds["score_s"] >= 0


def test_a_row_that_was_not_trained_is_not_compared() -> None:
    measured = {"list": [Measured({"p1": [1.0, 0.0], "mrr": [1.0, 0.5]}, {"train_s": 2.0}, 0.5)] * 2}
    lists = [question("q0", ["a"]), question("q1", ["a", "b"])]
    result = summary("squad", Data(lists, [], lists, None), measured, squad_full.PAIRS)  # type: ignore[arg-type]
    assert result["squad_p1_list"] == 50.0 and result["seeds_list"] == 2 and result["train_s_list"] == 2.0
    assert result["squad_candidates"] == 3 and not [key for key in result if "_over_" in key]


def test_the_order_of_paragraphs_says_nothing_of_the_right_one() -> None:
    rows = question("q0", [f"paragraph {n}" for n in range(9)])
    mixed = cosinet_passages.shuffled(rows)
    assert [row.position for row in mixed] == list(range(9)) and not mixed[0].label
    assert [row.text for row in cosinet_passages.shuffled(rows[::-1])] == [row.text for row in mixed]
    (passages,) = cosinet_passages.passages([mixed])
    assert [c.text for c in passages.candidates] == [row.text for row in mixed]
    assert {c.sentence for c in passages.candidates} == {None}


def test_a_pair_is_chosen_by_the_mean_of_its_seeds() -> None:
    assert doctest.testmod(multihead_paper).failed == 0
    assert len(multihead_paper.GRID) == 12


@pytest.mark.parametrize(
    ("row", "teachers", "strategy", "kind", "layers"),
    [
        ("mhs", ["base", "has", "birnn"], "mhs", "multihead", None),
        ("mhs_b3", ["base", "has", "birnn"], "mhs", "multihead", 3),
        ("mhs_single-base", ["base"], "single", "multihead", None),
        ("kd_has", ["has"], "single", "pointwise", None),
        ("kd_rr", ["base", "has", "birnn"], "round_robin", "pointwise", None),
    ],
)
def test_a_student_has_its_row_s_teachers(
    row: str, teachers: list[str], strategy: str, kind: str, layers: int | None
) -> None:
    training = multihead_paper.student("squad", row, 1, Lesson(0.5, 3.0))
    assert training.distil is not None and training.name == f"squad-{row}-0.5-3-1"
    assert (training.distil["teachers"], training.distil["strategy"]) == (teachers, strategy)
    assert training.section["reranker"] == kind and training.section.get("head_layers") == layers


def test_pairs_that_are_given_are_two_of_the_grid() -> None:
    for text in ("0.9:1", "0.9:1,0.9:2", "0.9:1,0.5:3,0.1:1"):
        with pytest.raises(SystemExit, match=rf"--pairs {text}: give two, .* of 0:1, 0:3, "):
            multihead_paper.given(text)


def test_longer_heads_are_rows_of_their_own() -> None:
    lessons = Lesson(0.9, 1.0), Lesson(0.5, 3.0)
    shorter, all_rows = (
        multihead_paper.students("wikiqa", "base", *lessons, layers) for layers in ((), (3,))
    )
    assert all_rows.keys() - shorter.keys() == {"mhs_b3"} and len(shorter) == 9
    assert [training.distil for training in shorter["kd_base"]] == [
        {"teachers": ["base"], "strategy": "single", "alpha": 0.5, "tau": 3.0}
    ] * 3


def test_a_teacher_scores_a_split_once(tmp_path: Path) -> None:
    np.save(tmp_path / "wikiqa-test-base.npy", np.array([0.25, -1.0]))
    assert multihead_paper.teacher_scores(tmp_path, "wikiqa", "base", "test").tolist() == [0.25, -1.0]


def test_mhs_is_compared_by_the_paper_s_tests_too() -> None:
    values = np.array([1.0, 0.5, 0.25, 1.0])
    rows = {"mhs": [Row({"map": values})], "single": [Row({"map": values * np.array([1, 1, 0.5, 0.5])})]}
    result = dict(multihead_paper.tests("wikiqa", "single", rows))
    assert result["wikiqa_mhs_over_single_difference"] == pytest.approx(100 * 0.625 / 4)
    assert 0 < result["wikiqa_mhs_over_single_wilcoxon_p"] < 1
    assert -1 <= result["wikiqa_mhs_over_single_spearman"] < 1


def test_the_attention_is_as_wide_as_the_paper_s_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def width(name: str) -> int:
        job = hashing_quality.training(tmp_path, tmp_path, hashing_quality.Run(name, "has", 0))
        return int(job.model_dump()["hashing"]["attention"])

    assert {name: width(name) for name in hashing_quality.SETS} == dict.fromkeys(hashing_quality.SETS, 128)
    monkeypatch.setattr(hashing_quality, "SETS", hashing_quality.LONG_SETS)
    assert (width("wikiqa"), width("insuranceqa")) == (128, 768)
    assert hashing_quality.SETS["insuranceqa"].seeds == 3 and hashing_quality.SETS["insuranceqa"].epochs == 10


def test_what_ships_is_measured_without_a_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measured(data: Path, name: str, reranker: Reranker) -> dict[str, Floats]:
        value = {"shipped": 0.75, "similarity": 0.5}[reranker.name]
        return {key: np.full(4, value) for key in ("p1", "map", "mrr", "ndcg10")}

    shipped = {name: SimpleNamespace(name=name) for name in ("shipped", "similarity")}
    monkeypatch.setattr(hashing_quality, "SETS", hashing_quality.UNTRAINED_SETS)
    monkeypatch.setattr(hashing_quality, "trained_elsewhere", lambda: shipped)
    monkeypatch.setattr(hashing_quality, "measured", measured)
    result = hashing_quality.trained_and_measured(tmp_path / "no-data", tmp_path)
    assert not any(tmp_path.iterdir()) and "trained_by" not in result
    for name in ("wikiqa", "squad"):
        assert result[f"{name}_shipped_over_similarity_difference"] == 25


def test_a_run_s_row_names_its_model() -> None:
    assert Run("compare_aggregate", "birnn", 0).row == "ca_birnn" and Run("cosinet", "list", 2).row == "list"
    assert set(squad_full.PAPER) >= {run.row for run in runs(("cosinet",), 1)}
