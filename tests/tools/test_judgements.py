"""The judgements of the sample's pooled sentences: the sheet is whole, and no pooled one lacks a label."""

from __future__ import annotations

from pathlib import Path

import pytest

from answermill.indexing.passages.text import fold
from answermill.pipelines.specs.rerank import SCORED
from benchmarks.sample import DEPTH, figures, labels
from testing.judgements import Judgement, agreement, read_judgements
from tools.sample_web import build, pool
from tools.sample_web.build import PLACE, SHEET, SOURCES

HEADER = "question_id\tpage\tsentence\tfirst\tsecond\tlabel\tformer\treason\n"
ROW = "q02\ttides\tSpring tides and neap tides\t0\t0\t0\t\t\n"


@pytest.fixture(scope="module")
def judgements() -> list[Judgement]:
    return read_judgements(SOURCES / SHEET, PLACE)


def test_every_sentence_that_the_run_pools_is_judged(sample_run: Path, judgements: list[Judgement]) -> None:
    rows = list(SCORED.open(sample_run).read())
    pooled = {(row.question_id, fold(row.text)) for row in pool.pooled(rows)}
    assert len(pooled) > 1_400 and pooled <= {
        (key, fold(sentence)) for key, _, sentence in (row.place for row in judgements)
    }
    assert pool.unjudged(rows) == [] and figures(rows, "")["unjudged"] == 0


def test_a_sentence_without_a_label_is_on_the_sheet_once_with_its_passage_and_no_score(
    sample_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = next(row for row in SCORED.open(sample_run).read() if row.rank == 1)
    left_out = {key: dict(judged) for key, judged in labels().items()}
    del left_out[first.question_id][fold(first.text)]
    monkeypatch.setattr(pool, "labels", lambda: left_out)
    monkeypatch.setattr(
        "sys.argv", ["pool", str(sample_run), "--out", str(tmp_path / "s"), "--plans", "default"]
    )
    pool.main()

    header, *lines = (tmp_path / "s").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["question_id", "question", "title", "passage", "sentence"]
    [cells] = [line.split("\t") for line in lines]
    assert cells[0] == first.question_id and cells[-1] == first.text and first.text in cells[3]


def test_a_stage_s_first_ones_are_pooled_where_the_plan_drops_them_later(sample_run: Path) -> None:
    pooled = list(pool.pooled(SCORED.open(sample_run).read()))
    assert any(row.rank is None for row in pooled) and any((row.rank or 0) > DEPTH for row in pooled)


def test_labels_that_both_readings_contradict_are_mended_except_a_question_s_only_one(
    judgements: list[Judgement],
) -> None:
    former = [row for row in judgements if row.former is not None]
    contradicted = [row for row in former if row.first == row.second != row.former]
    kept = [row for row in contradicted if row.label == row.former]
    assert len(former) == 191 and len(contradicted) == 7
    assert [(row.place[0], row.label) for row in kept] == [("q16", 1)]
    assert sum(labels()["q16"].values()) == 1


def test_the_agreement_is_kappa_of_the_readings_whatever_was_settled(judgements: list[Judgement]) -> None:
    readings = [(1, 1)] * 2 + [(0, 0)] * 5 + [(1, 0)]
    rows = [Judgement((str(n),), first, second, 0) for n, (first, second) in enumerate(readings)]
    assert agreement(rows).value == pytest.approx(5 / 7)  # 7 of 8 agree, 9 of 16 by chance

    kappa = agreement(judgements)
    assert kappa.items == len(judgements) and 0.9 < (kappa.value or 0) < 1


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (ROW + ROW, ":3: the sentence is judged twice for q02"),
        (ROW.replace("\t0\t0\t0", "\t0\t0"), ":2: 7 cells; a row has 8"),
        (ROW.replace("\t0\t0\t0", "\t0\tno\t0"), ":2: labels are 0 and 1"),
        (ROW.replace("\t0\t0\t0", "\t0\t0\t1"), ":2: the label is 1, and both readings say 0"),
        (ROW.replace("\t0\t0\t0", "\t0\t1\t1"), ":2: labels differ; give the reason for the settled one"),
        (
            ROW.replace("\t0\t0\t0\t", "\t0\t0\t0\t1"),
            ":2: labels differ; give the reason for the settled one",
        ),
    ],
)
def test_a_row_that_is_not_whole_is_refused_with_its_line(tmp_path: Path, rows: str, says: str) -> None:
    sheet = tmp_path / SHEET
    sheet.write_text(HEADER + rows, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        read_judgements(sheet, PLACE)


def test_a_sheet_with_other_columns_is_refused(tmp_path: Path) -> None:
    sheet = tmp_path / SHEET
    sheet.write_text("question_id\tsentence\tlabel\n", encoding="utf-8")
    with pytest.raises(ValueError, match=":1: the columns must be question_id, page, sentence, first"):
        read_judgements(sheet, PLACE)


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (Judgement(("q99", "tides", "Tides"), 1, 1, 1), "q99: not a question of questions.toml"),
        (Judgement(("q1", "tides", "Tides rise."), 0, 0, 0), "q1: 0 here, 1 in questions.toml: 'Tides"),
    ],
)
def test_a_judgement_that_the_questions_contradict_is_refused(judged: Judgement, says: str) -> None:
    question = {"id": "q1", "gold": [{"page": "tides", "sentence": "Tides rise."}]}
    with pytest.raises(ValueError, match=says):
        list(build.labels([question], [judged]))


def test_a_judged_text_is_labelled_once_behind_the_question_s_own_labels() -> None:
    question = {"id": "q1", "gold": [{"page": "tides", "sentence": "Tides rise."}]}
    judged = [
        Judgement(("q1", "tides", sentence), label, label, label)
        for sentence, label in (("tides  rise.", 1), ("They fall.", 0), ("They FALL.", 0), ("It rises.", 1))
    ]
    assert list(build.labels([question], judged)) == [
        "q1\tTides rise.\t1",
        "q1\tIt rises.\t1",
        "q1\tThey fall.\t0",
    ]
