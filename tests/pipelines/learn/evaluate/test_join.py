"""Scores joined with labels: what is unjudged, missing or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.learn.evaluate.candidate_values import CandidateValues
from answermill.pipelines.learn.evaluate.join import join
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.learn.evaluate.scores import read_scores
from testing.labelled_set import write_three_each

RUN = "q1 Q0 a 1 3.5 tag\nq1 Q0 b 2 2.5 tag\nq2 Q0 c 1 1.0 tag\n"
QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n"


def text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def test_a_trec_run_is_joined_with_trec_qrels_whatever_its_ranks_say(tmp_path):
    run = text(tmp_path, "run.txt", RUN.replace(" 2 2.5", " 0 2.5"))
    joined = join(read_scores(run), read_labels(text(tmp_path, "qrels.txt", QRELS)))
    assert joined.question_ids == ("q1", "q2")
    assert joined.judged.label.tolist() == [1, 0, 2] and joined.judged.score.tolist() == [3.5, 2.5, 1.0]


def test_what_the_run_lacks_is_there_as_not_ranked_and_what_nobody_judged_as_unjudged(tmp_path):
    run = text(tmp_path, "run.txt", "q1 Q0 a 1 3.5 t\nq1 Q0 x 2 2.5 t\nq9 Q0 c 1 1.0 t\n")
    joined = join(read_scores(run), read_labels(text(tmp_path, "qrels.txt", QRELS)))
    assert joined.judged.label.tolist() == [1, -1, 0, 2]
    assert joined.judged.ranked.tolist() == [True, True, False, False]
    assert joined.unknown_questions == 1


def test_a_score_of_hundreds_of_digits_is_refused_with_its_line(tmp_path):
    run = text(tmp_path, "run.jsonl", f'{{"qid": "q1", "docno": "a", "score": {"9" * 400}}}\n')
    with pytest.raises(JobError, match=r"run.jsonl:1: score 9+\.\.\.9+ is no number") as error:
        read_scores(run)
    assert error.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1 Q0 a 1 nan t\n", r"run.txt:1: score nan for candidate a of question q1"),
        ("q1 Q0 a 1 1 t\nq1 Q0 b 1 inf t\n", r"run.txt:2: score inf"),
        (
            "q1 Q0 a 1 1 t\nq1 Q0 b 2 1 t\nq1 Q0 a 3 1 t\n",
            r"run.txt:3: candidate a of question q1 comes twice",
        ),
        ("q1 Q0 a 1 high t\n", r"run.txt:1: score 'high' is no number"),
        ("q1 Q0 a 1 1\n", r"run.txt:1: 5 columns, where a TREC run has 6"),
        ("", "no score in it"),
        ("q7 Q0 a 1 1 t\n", "1 question, none with a label in"),
    ],
)
def test_bad_scores_are_refused_with_file_and_line(tmp_path, content, says):
    labels = read_labels(text(tmp_path, "qrels.txt", QRELS))
    with pytest.raises(JobError, match=says) as e:
        join(read_scores(text(tmp_path, "run.txt", content)), labels)
    assert e.value.code == BAD_DATA


def test_scores_of_several_files_without_a_label_are_named_by_the_first(tmp_path):
    labels = read_labels(text(tmp_path, "qrels.txt", QRELS))
    scores = CandidateValues.from_rows(tmp_path / "a", [(1, "q7", "a", 0.5), (1, "q8", "a", 0.5)])
    parts = replace(scores, files=((tmp_path / "a", 1), (tmp_path / "b", 2)))
    with pytest.raises(JobError, match="a and 1 more file: 2 questions, none with a label in"):
        join(parts, labels)


def test_a_confidence_that_is_no_number_is_bad_data_and_not_a_dropped_candidate(tmp_path):
    labels = read_labels(text(tmp_path, "qrels.txt", QRELS))
    dropped, broken = (
        CandidateValues.from_rows(
            tmp_path / "part.parquet", [(6, "q1", "a", 0.0, 0.5), (7, "q1", "b", -1.0, sure)]
        )
        for sure in (None, float("nan"))
    )
    joined = join(dropped, labels)
    assert joined.is_answer.tolist() == [True, False, False] and joined.confidence[0] == 0.5

    with pytest.raises(
        JobError, match=r"part\.parquet, row 7: confidence nan for candidate b of question q1"
    ) as e:
        join(broken, labels)

    assert e.value.code == BAD_DATA


def test_scores_of_nothing_that_was_judged_are_refused(tmp_path):
    run = text(tmp_path, "run.txt", "q1 Q0 x 1 3.5 t\nq2 Q0 y 1 1.0 t\nq9 Q0 z 1 1.0 t\n")
    with pytest.raises(
        JobError, match=r"run.txt: none of 2 candidates has a label in .*qrels.txt; are the"
    ) as e:
        join(read_scores(run), read_labels(text(tmp_path, "qrels.txt", QRELS)))
    assert e.value.code == BAD_DATA


def test_an_id_that_a_data_set_does_not_have_is_an_error(tmp_path):
    labels = read_labels(write_three_each(tmp_path))
    with pytest.raises(JobError, match=r"run.txt:2: candidate q1-9 of question q1 is not in .*set.parquet"):
        join(read_scores(text(tmp_path, "run.txt", "q1 Q0 q1-0 1 1 t\nq1 Q0 q1-9 2 0 t\n")), labels)
    with pytest.raises(JobError, match=r"run.txt:1: candidate a of question q7 is not in"):
        join(read_scores(text(tmp_path, "run.txt", "q7 Q0 a 1 1 t\n")), labels)
