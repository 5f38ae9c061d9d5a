from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.formats.parquet import SHARED
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.ranking.lists import ranked_list
from answermill.schemas.labels import OPTIONAL, RETRIEVAL, LabelledCandidate

OURS = [
    LabelledCandidate("7", "Who?", "a@0", "a", "A", 0, "One.", 0),
    LabelledCandidate("7", "Who?", "a@5", "a", "A", 1, "", 1),
    LabelledCandidate("8", "Why?", "a@0", "a", "A", 0, "One.", 0),
]


def shared(path, *rows):
    pq.write_table(pa.Table.from_pylist([dict(zip(SHARED, row, strict=True)) for row in rows]), path)
    return path


def test_our_own_rows_come_back_as_they_were(tmp_path):
    pq.write_table(LabelledCandidate.table(OURS), tmp_path / "c.parquet")
    assert list(read_dataset(tmp_path / "c.parquet")) == OURS


def test_neighbours_come_back_and_their_columns_may_be_missing(tmp_path):
    known = [replace(row, previous="", next="Two.") for row in OURS[:2]] + [OURS[2]]
    table = LabelledCandidate.table(known)
    pq.write_table(table, tmp_path / "c.parquet")
    assert list(read_dataset(tmp_path / "c.parquet")) == known
    pq.write_table(table.drop_columns(["previous", "next"]), tmp_path / "old.parquet")
    assert list(read_dataset(tmp_path / "old.parquet")) == OURS
    wrong = pa.Table.from_pylist([{**row, "next": 7} for row in table.drop_columns(["next"]).to_pylist()])
    pq.write_table(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(JobError, match="next is '7'; give text"):
        list(read_dataset(tmp_path / "wrong.parquet"))


def test_what_is_known_of_retrieval_comes_back_and_its_columns_may_be_missing(tmp_path):
    known = [replace(OURS[0], bm25=1.25, dense=-0.5, log_rank=0.0, place=3), *OURS[1:]]
    table = LabelledCandidate.table(known)
    pq.write_table(table, tmp_path / "c.parquet")
    assert list(read_dataset(tmp_path / "c.parquet")) == known
    pq.write_table(table.drop_columns(["bm25", "dense", "log_rank", "place"]), tmp_path / "old.parquet")
    assert list(read_dataset(tmp_path / "old.parquet")) == OURS


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_column_needs_no_more_than_its_declaration_to_reach_the_rerankers(tmp_path, name):
    value = "Two." if pa.types.is_string(LabelledCandidate.schema().field(name).type) else 3
    known = replace(OURS[0], **{name: value})
    pq.write_table(LabelledCandidate.table([known]), tmp_path / "c.parquet")
    assert list(read_dataset(tmp_path / "c.parquet")) == [known] != OURS[:1]
    (candidate,) = ranked_list([known]).candidates
    if name in RETRIEVAL:
        assert candidate.retrieval == {**dict.fromkeys(RETRIEVAL), name: value}
    else:
        assert value in [sentence.text for sentence in candidate.hit.passage.sentences]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("bm25", float("nan"), "bm25 is 'nan'; give a finite number, or null"),
        ("log_rank", "high", "log_rank is 'high'; give a finite number, or null"),
        ("dense", True, "dense is 'True'; give a finite number, or null"),
        ("place", -1, "place is '-1'; give a whole number of at least 0, or null"),
        ("place", 0.5, "place is '0.5'; give a whole number of at least 0, or null"),
    ],
)
def test_what_cannot_be_a_score_of_retrieval_is_refused(tmp_path, name, value, says):
    rows = [{**row.to_dict(), name: value} for row in OURS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "wrong.parquet")
    with pytest.raises(JobError, match=f"wrong.parquet:1: {says}"):
        list(read_dataset(tmp_path / "wrong.parquet"))


def test_the_shared_columns_need_no_document(tmp_path):
    rows = (
        ("Q1", "Who?", "D1", "Ice", 0, "One.", 1),
        ("Q1", "Who?", "D1", "Ice", 1, "Two.", 0),
        ("Q2", "Why?", None, None, 0, "", 0),
    )
    assert list(read_dataset(shared(tmp_path / "c.parquet", *rows))) == [
        LabelledCandidate("Q1", "Who?", "D1-0", "D1", "Ice", 0, "One.", 1),
        LabelledCandidate("Q1", "Who?", "D1-1", "D1", "Ice", 1, "Two.", 0),
        LabelledCandidate("Q2", "Why?", "0", "", "", 0, "", 0),
    ]


def test_a_whole_number_is_an_id_without_its_point(tmp_path):
    row = (7.0, "Who?", "D1", "Ice", 0, "One.", 1)
    assert [row.question_id for row in read_dataset(shared(tmp_path / "c.parquet", row))] == ["7"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            ("Q1", "Who?", "D1", "Ice", 2, "Two.", 0),
            "c.parquet:2: position 2 where 1 is due in question 'Q1'",
        ),
        (("Q1", "Who?", "D1", "Ice", 1, "Two.", 2), "c.parquet:2: label 2; it must be 0 or 1"),
        (("Q1", "Who?", "D1", "Ice", 1, None, 0), "c.parquet:2: no sentence"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(tmp_path, row, says):
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(shared(tmp_path / "c.parquet", ("Q1", "Who?", "D1", "Ice", 0, "One.", 1), row)))
    assert raised.value.code == BAD_DATA


def test_files_of_other_columns_or_none_are_refused(tmp_path):
    pq.write_table(pa.table({"question_id": ["7"], "question": ["Who?"]}), tmp_path / "q.parquet")
    with pytest.raises(JobError, match="has neither the columns question_id, question, candidate_id"):
        list(read_dataset(tmp_path / "q.parquet", "parquet"))
    (tmp_path / "t.parquet").write_text("text")
    with pytest.raises(JobError, match="not readable as Parquet"):
        list(read_dataset(tmp_path / "t.parquet", "parquet"))


@pytest.mark.parametrize(
    ("name", "questions", "pairs", "positives"),
    [
        ("selqa/selqa-dev", 785, 9_419, 893),
        ("selqa/selqa-test", 1_590, 19_519, 1_798),
        ("squad/squad-sent-test", 11_873, 63_958, 5_928),
    ],
)
def test_the_shared_sets_have_their_counts(shared_data, name, questions, pairs, positives):
    rows = list(read_dataset(shared_data / f"{name}.parquet"))
    assert (len({c.question_id for c in rows}), len(rows), sum(c.label for c in rows)) == (
        questions,
        pairs,
        positives,
    )
    assert sum(not c.text for c in rows) == {"selqa/selqa-dev": 42, "selqa/selqa-test": 84}.get(name, 0)
