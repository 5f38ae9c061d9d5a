"""Which questions of a file are asked: none is lost, what is not asked says why, and a sample depends on
nothing but ids."""

from __future__ import annotations

import json
import random

import pytest

from answermill.pipelines.config.job_file import Retrieve, load
from answermill.pipelines.data.inputs.questions import choose
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.specs.retrieve import QUESTIONS, QUESTIONS_REJECTS, RETRIEVE
from answermill.pipelines.steps.retrieve import retrieve
from answermill.schemas.corpus import Rejected

ASKED = {
    "a": "Who wrote Emma in 1815?",
    "b": "the last of us",
    "c": "What is ____ called?",
    "d": "When did Rome burn down",
}


def file_of(folder, rows):
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(**scores):
    return [
        {"question_id": q, "text": text} | ({"well_formed": scores[q]} if q in scores else {})
        for q, text in ASKED.items()
    ]


def test_without_settings_all_are_asked(tmp_path):
    selection = choose(file_of(tmp_path, rows()), Retrieve(questions="q.tsv"))
    assert [q.question_id for q in selection.questions] == ["a", "b", "c", "d"] and not selection.rejects


def test_rules_refuse_with_line_id_reason_and_text(tmp_path):
    selection = choose(file_of(tmp_path, rows()), Retrieve(questions="q.tsv", question_rules="well_formed"))
    assert [q.question_id for q in selection.questions] == ["a", "d"]
    assert selection.rejects == (
        Rejected("questions.jsonl", 2, "b", "", "not_a_question", "the last of us"),
        Rejected("questions.jsonl", 3, "c", "", "placeholder", "What is ____ called?"),
    )


def test_a_model_s_scores_stand_in_the_rules_place(tmp_path):
    path = file_of(tmp_path, rows(a=0.1, b=0.9, c=0.8, d=1))
    selection = choose(path, Retrieve(questions="q.tsv", question_scores_above=0.8))
    assert [q.question_id for q in selection.questions] == ["b", "d"]
    assert [(r.source_record, r.reason, r.detail[:5]) for r in selection.rejects] == [
        ("a", "low_score", "0.1: "),
        ("c", "low_score", "0.8: "),
    ]
    both = choose(path, Retrieve(questions="q.tsv", question_scores_above=0.8, question_rules="well_formed"))
    assert [q.question_id for q in both.questions] == ["d"] and both.reasons == {
        "low_score": 2,
        "not_a_question": 1,
    }


def test_a_sample_is_chosen_by_ids_alone_and_keeps_the_file_s_order(tmp_path):
    many = [{"question_id": f"q{n}", "text": f"What is {n} plus one?"} for n in range(100)]
    settings = Retrieve(questions="q.tsv", max_questions=10)
    first = choose(file_of(tmp_path, many), settings)
    random.Random(0).shuffle(many)
    again = choose(file_of(tmp_path, many), settings)
    ids = [row["question_id"] for row in many]
    assert {q.question_id for q in first.questions} == {q.question_id for q in again.questions}
    assert [q.question_id for q in again.questions] == [
        q for q in ids if q in {x.question_id for x in first.questions}
    ]

    assert len(first.questions) == 10 and first.reasons == {"not_sampled": 90}
    other = choose(file_of(tmp_path, many), Retrieve(questions="q.tsv", max_questions=10, question_seed=1))
    assert set(other.questions) != set(first.questions)
    assert (
        len(choose(file_of(tmp_path, many), Retrieve(questions="q.tsv", max_questions=200)).questions) == 100
    )


@pytest.mark.parametrize(
    ("questions", "settings", "code", "says"),
    [
        (rows(a=0.5), {"question_scores_above": 0.2}, BAD_DATA, r"questions.jsonl:2: no `well_formed`"),
        (
            rows(a=1.5),
            {},
            BAD_DATA,
            r"questions.jsonl:1: well_formed is 1.5; it must be a number from 0 to 1",
        ),
        (rows(b="high"), {}, BAD_DATA, r"questions.jsonl:2: well_formed is 'high'"),
        (
            rows()[1:3],
            {"question_rules": "well_formed"},
            BAD_DATA,
            r"no question is left of 2: 1 not_a_question, 1 placeholder",
        ),
        (
            rows(),
            {"question_words": [5, 4]},
            SETTINGS,
            r"question_words = \[5, 4\]: the first number must not exceed the second",
        ),
    ],
)
def test_settings_and_files_that_leave_no_question_are_refused(tmp_path, questions, settings, code, says):
    with pytest.raises(JobError, match=says) as e:
        choose(file_of(tmp_path, questions), Retrieve(questions="q.tsv", **settings))
    assert e.value.code == code


def test_a_run_keeps_the_questions_that_it_does_not_ask(sample_run, tmp_path):
    path = copy_to(tmp_path)
    questions = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    questions += [
        {"question_id": "x1", "text": "the nile"},
        {"question_id": "x2", "text": "What is [BLANK] called?"},
    ]
    file_of(tmp_path, questions)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/shards").symlink_to(sample_run / "shards")

    job = load(
        path,
        ["retrieve.question_rules=well_formed", "retrieve.max_questions=20", "retrieve.sources=['bm25']"],
    )
    summary = retrieve.retrieve(job, tmp_path / "run")
    asked = list(QUESTIONS.open(tmp_path / "run").read())
    kept = QUESTIONS_REJECTS.open(tmp_path / "run")
    reasons = [reject.reason for reject in kept.read()]
    assert len(asked) == 20 and len(reasons) == len(questions) - 20

    assert (
        {"not_sampled", "not_a_question", "too_short", "placeholder"}
        >= set(reasons)
        > {"not_sampled", "placeholder"}
    )
    counts = RETRIEVE.counts_of(kept.manifest)
    assert counts.questions_given == len(questions) == 92
    assert counts.rejected["not_sampled"] == reasons.count("not_sampled")
    assert "92 given = 20 questions + 72 rejects (" in summary
