"""Files that hold no values are refused with what they lack."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.learn.evaluate.scores import read_scores


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"question_id": ["q1"], "score": [1.0]}, "no column candidate_id; it has question_id, score"),
        ({"question_id": ["q1"], "candidate_id": [None], "score": [1.0]}, "row 0: null"),
        ({"question_id": ["q1"], "candidate_id": ["a"], "score": ["much"]}, "score is no number"),
    ],
)
def test_a_parquet_without_what_is_needed_is_refused(tmp_path, columns, says):
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    with pytest.raises(JobError, match=says):
        read_scores(tmp_path / "scores.parquet")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("labels.tsv", "question_id\tsentence\tlabel\nq1\tIt is so.\t1\n"),
        ("labels.jsonl", '{"qid": "q1", "sentence": "It is so.", "label": 1}\n'),
    ],
)
def test_labels_by_text_are_refused_with_where_their_ids_come_from(tmp_path, name, table):
    (tmp_path / name).write_text(table, encoding="utf-8")
    with pytest.raises(JobError, match=r"no column candidate_id; .*`propagate`, which writes RUN/lab"):
        read_labels(tmp_path / name)


def test_ids_that_pandas_made_floats_of_are_those_of_the_integers(tmp_path):
    ids = pa.array([7.0, float(2**52)])
    pq.write_table(
        pa.table({"question_id": ids, "candidate_id": ["a", "b"], "score": [1, 2]}), tmp_path / "s.parquet"
    )
    assert read_scores(tmp_path / "s.parquet").question_id.to_pylist() == ["7", str(2**52)]
    for other in (7.5, float(2**53)):
        pq.write_table(
            pa.table({"question_id": [other], "candidate_id": ["a"], "score": [1]}), tmp_path / "s.parquet"
        )
        with pytest.raises(JobError, match="question_id or candidate_id is no text and no whole number"):
            read_scores(tmp_path / "s.parquet")


def test_a_file_that_is_no_parquet_says_so(tmp_path):
    (tmp_path / "scores.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(JobError, match="not readable as Parquet"):
        read_scores(tmp_path / "scores.parquet")


def test_missing_files_are_missing_inputs(tmp_path):
    for read in (read_labels, read_scores):
        with pytest.raises(JobError, match="no such file or folder") as e:
            read(tmp_path / "absent")
        assert e.value.code == INPUT_MISSING
