from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.pipelines.learn.compare_many import compare_many
from answermill.pipelines.learn.evaluate.compare import compare_files, with_answers
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.reference_labels import read_labels, texts_of
from answermill.schemas.labels import LabelledCandidate

QUESTIONS = {
    "a": ("Who sang it?", [("Nobody.", 0), ("It was he who sang it.", 1)]),
    "b": ("Where?", [("Here.", 1), ("Not where you look.", 0)]),
    "c": ("What red thing?", [("Blue.", 0), ("A red thing.", 1)]),
}


@pytest.fixture
def sides(tmp_path):
    """The same three questions, evaluated in document order and by word overlap."""
    rows = [
        LabelledCandidate(question_id, question, f"{question_id}-{n}", "d", "", n, text, label)
        for question_id, (question, candidates) in QUESTIONS.items()
        for n, (text, label) in enumerate(candidates)
    ]
    labels = tmp_path / "set.parquet"
    pq.write_table(LabelledCandidate.table(rows), labels)
    for name in ("RR", "WO+RR"):
        evaluate(name, labels).write(None, tmp_path / f"{name}.parquet")
    return tmp_path


def run_of(folder, name, best):
    """A TREC run in which each question's candidate of this number is the first."""
    lines = [f"{q} Q0 {q}-{n} 0 {float(str(n) == best)} {name}\n" for q in QUESTIONS for n in range(2)]
    (folder / f"{name}.run").write_text("".join(lines))
    return folder / f"{name}.run"


def test_differences_wins_and_the_flipped_questions_with_their_texts(sides):
    comparison = compare_files(str(sides / "RR.parquet"), str(sides / "WO+RR.parquet"), rounds=500)
    c = comparison.metrics["P@1"]
    assert (c.wins, c.ties, c.losses) == (2, 0, 1) and c.difference == pytest.approx(1 / 3)
    assert [(flip.question, flip.gained) for flip in comparison.flips] == [
        ("Where?", False),
        ("Who sang it?", True),
        ("What red thing?", True),
    ]

    said = "\n".join(comparison.lines(show=1))
    assert (
        "1 question lost at P@1:" in said
        and "2 questions gained at P@1, the first 1:" in said
        and "Who sang it?" in said
    )


def test_with_labels_it_evaluates_both_sides_itself(sides):
    files = compare_files(str(sides / "RR.parquet"), str(sides / "WO+RR.parquet"), rounds=100)
    named = compare_files("RR", "WO+RR", labels=sides / "set.parquet", rounds=100)
    without_answers = [replace(flip, answer_a="", answer_b="") for flip in named.flips]
    assert named.metrics == files.metrics and without_answers == list(files.flips)


def test_it_says_what_a_side_has_not_scored(sides):
    """A file that was cut off would else be a significant loss and no more."""
    whole, cut = run_of(sides, "whole", "1"), sides / "cut.run"
    cut.write_text("".join(whole.read_text().splitlines(keepends=True)[:3]))
    compared = compare_files(str(whole), str(cut), labels=sides / "set.parquet", rounds=100)
    lacking = [
        "1 of the questions kept have no score and count 0",
        "3 judged candidates without a score, 1 of them correct: they count as not found",
    ]
    assert compared.gaps == {"A": [], "B": lacking}
    assert {f"B: {line}" for line in lacking} <= set(compared.lines())
    compared.write(sides / "out.json")
    assert json.loads((sides / "out.json").read_text())["gaps"] == {"A": [], "B": lacking}

    evaluate(str(cut), sides / "set.parquet").write(None, sides / "cut.parquet")
    finished = compare_files(str(sides / "RR.parquet"), str(sides / "cut.parquet"), rounds=100)
    assert finished.gaps == {"A": [], "B": lacking[:1]}
    many = compare_many([str(whole), str(cut), "RR"], labels=sides / "set.parquet", rounds=100)
    assert [line for line in many.lines() if "score" in line] == [f"{cut}: {line}" for line in lacking]


def test_files_of_scores_show_each_flipped_question_with_both_first_answers(sides):
    runs = [str(run_of(sides, name, best)) for name, best in (("a", "0"), ("b", "1"))]
    compared = compare_files(*runs, labels=sides / "set.parquet", rounds=100)
    said = "\n".join(compared.lines())
    assert "100.0 →   0.0  b  Where?" in said
    assert said.index("A: Here.") < said.index("B: Not where you look.")
    assert [flip.answer_b for flip in compared.flips if flip.gained] == [
        "It was he who sang it.",
        "A red thing.",
    ]

    (sides / "qrels.txt").write_text("".join(f"{q} 0 {q}-{n} {n}\n" for q in QUESTIONS for n in range(2)))
    compared = compare_files(*runs, labels=sides / "qrels.txt", rounds=100)
    assert compared.flips and not any(flip.question or flip.answer_a for flip in compared.flips)


def test_a_folder_of_labels_shows_sentences_and_its_runs_questions(sample_run):
    labels = sample_run / "labels" / "sentences"
    values = read_labels(labels).values
    question_id, candidate_id = values.question_id[0].as_py(), values.candidate_id[0].as_py()
    questions, texts = texts_of(labels, None, {(question_id, candidate_id)})
    assert questions[question_id].endswith("?") and len(texts) == 1


def test_json_has_all_flips_and_fractions(sides):
    comparison = compare_files("RR", "WO+RR", labels=sides / "set.parquet", rounds=100)
    comparison.write(sides / "compared.json")
    values = json.loads((sides / "compared.json").read_text())
    assert len(values["flips"]) == 3 and values["metrics"]["P@1"]["b"] == pytest.approx(2 / 3)


def test_worse_is_what_a_margin_is_held_against(sides):
    comparison = compare_files("WO+RR", "RR", labels=sides / "set.parquet", rounds=100)
    assert comparison.worse_by("P@1") == pytest.approx(1 / 3)
    with pytest.raises(JobError, match="MAPP was not measured; measured: P@1, MAP") as e:
        comparison.worse_by("MAPP")
    assert e.value.code == USAGE


def test_other_questions_protocols_or_files_are_refused(sides):
    labels = sides / "set.parquet"
    evaluate("RR", labels, protocol="raw").write(None, sides / "raw.parquet")
    with pytest.raises(JobError, match="are of different protocols: answerable, raw") as e:
        compare_files(str(sides / "RR.parquet"), str(sides / "raw.parquet"))
    assert e.value.code == BAD_DATA
    evaluate("RR", labels, metrics=("MAP",)).write(None, sides / "map.parquet")

    with pytest.raises(
        JobError, match=r"not of the same questions and metrics: 9 differ, e\.g\. MRR of question a is in"
    ):
        compare_files(str(sides / "map.parquet"), str(sides / "RR.parquet"))

    with pytest.raises(JobError, match="give --labels") as e:
        compare_files("RR", str(sides / "RR.parquet"))
    assert e.value.code == USAGE


def test_of_a_finished_evaluation_only_what_it_has_is_compared(sides):
    files = [str(sides / f"{name}.parquet") for name in ("RR", "WO+RR")]
    assert list(compare_files(*files, metrics=["MRR"], rounds=50).metrics) == ["MRR"]
    assert compare_files(*files, protocol="answerable", rounds=50).protocol == "answerable"
    for options, says in (
        ({"metrics": ["MRR", "P@5"]}, r"RR\.parquet has no P@5, but P@1, MAP, MRR, nDCG@10"),
        ({"protocol": "raw"}, r"was measured by protocol answerable, not raw"),
        ({"metrics": []}, "no metric"),
    ):
        with pytest.raises(JobError, match=says) as e:
            compare_files(*files, labels=sides / "set.parquet", **options)
        assert e.value.code == USAGE


def test_files_of_rows_show_the_answers_as_well(sides):
    """As `answermill evaluate --questions` writes them; files of before, without answers, are read too."""
    labels = sides / "set.parquet"
    for name in ("RR", "WO+RR"):
        with_answers(evaluate(name, labels), labels).write(None, sides / f"{name}.answers.parquet")
    files = [str(sides / f"{name}.answers.parquet") for name in ("RR", "WO+RR")]
    compared = compare_files(*files, rounds=100)
    assert compared.flips == compare_files("RR", "WO+RR", labels=labels, rounds=100).flips
    assert "A: Here." in "\n".join(compared.lines())

    # The questions' texts too, where the labels have none themselves and the scores are a file's.
    qrels = sides / "qrels"
    qrels.write_text("".join(f"{q} 0 {q}-{n} {QUESTIONS[q][1][n][1]}\n" for q in QUESTIONS for n in range(2)))
    bare = evaluate(str(run_of(sides, "a", "0")), qrels)
    assert {row.question for row in bare.questions} == {""}
    assert {row.question for row in with_answers(bare, labels).questions} == {
        q for q, _ in QUESTIONS.values()
    }

    former = pq.read_table(files[0]).drop_columns(["answer"])
    pq.write_table(former, sides / "former.parquet")
    flips = compare_files(str(sides / "former.parquet"), files[1], rounds=100).flips
    assert [(flip.answer_a, bool(flip.answer_b)) for flip in flips] == [("", True)] * 3


@pytest.mark.parametrize(("option", "value"), [("--rounds", "0"), ("--seed", "-1"), ("--show", "-1")])
def test_a_number_that_cannot_be_is_refused_as_usage(sides, capsys, option, value):
    with pytest.raises(SystemExit) as e:
        main(["compare", str(sides / "RR.parquet"), str(sides / "WO+RR.parquet"), option, value])
    assert e.value.code == USAGE
    assert f'Invalid value "{value}" for {option}' in capsys.readouterr().err
