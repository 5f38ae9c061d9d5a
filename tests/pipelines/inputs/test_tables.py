from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from pipelines.inputs.tables import label_batches, read_questions, read_splits
from schemas.corpus import Question

TWO = [Question("7", "Who?"), Question("8", 'Why "so"?')]


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'question_id\ttext\n7\tWho?\n8\tWhy "so"?\n'),
        ("b.tsv", '7\tWho?\n8\tWhy "so"?\n'),
        ("c.jsonl", '{"_id": "7", "text": "Who?"}\n\n{"_id": "8", "text": "Why \\"so\\"?"}\n'),
        ("d.jsonl", '{"question_id": 7, "question": "Who?"}\n{"question_id": 8, "question": "Why \\"so\\"?"}\n'),
    ],
)
def test_questions_are_read_from_tsv_and_jsonl(tmp_path, name, text):
    assert read_questions(put(tmp_path / name, text)) == TWO


def test_questions_are_read_from_gzip_and_parquet(tmp_path):
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"id": q.question_id, "text": q.text}) + "\n" for q in TWO)
    pq.write_table(pa.table({"question_id": ["7", "8"], "question": [q.text for q in TWO]}), tmp_path / "q.parquet")
    assert read_questions(tmp_path / "q.jsonl.gz") == read_questions(tmp_path / "q.parquet") == TWO


def test_questions_without_ids_are_numbered(tmp_path):
    assert read_questions(put(tmp_path / "q.jsonl", '{"question": "Who?"}\n{"question": "Why?"}\n'))[1] == Question("2", "Why?")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.tsv", "question_id\ttext\n1\tWho?\n1\tWhy?\n", r"q.tsv:3: question id '1' is in line 2 already"),
        ("q.tsv", "question_id\ttext\n1\t \n", r"q.tsv:2: no question"),
        ("q.tsv", "question_id\ttext\n1\tWho?\tWhy?\n", r"q.tsv:2: 3 cells where the header has 2"),
        ("q.tsv", "Who?\n", r"q.tsv:1: no header line; without one it must have the columns question_id, text"),
        ("q.jsonl", '{"text": "Who?"}\n{"text": \n', r"q.jsonl:2: not JSON"),
        ("q.jsonl", "[1]\n", r"q.jsonl:1: not a JSON object: \[1\]"),
        ("q.jsonl", "", "no question in it"),
        ("q.csv", "a,b", r"ends in .csv; .tsv, .jsonl and .parquet can be read"),
        ("q.jsonl.gz", "text", "not readable as jsonl"),
        ("q.parquet", "text", "not readable as parquet"),
    ],
)
def test_bad_questions_are_refused_with_their_line(tmp_path, name, text, says):
    with pytest.raises(JobError, match=says) as e:
        read_questions(put(tmp_path / name, text))
    assert e.value.code == BAD_DATA


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(JobError, match="no such file") as e:
        read_questions(tmp_path / "absent.tsv")
    assert e.value.code == INPUT_MISSING


LABELS = [
    {"number": 2, "question_id": "q1", "sentence_id": "d@0", "text": None, "label": 1},
    {"number": 3, "question_id": "q1", "sentence_id": None, "text": "It is so.", "label": 0},
    {"number": 4, "question_id": "2", "sentence_id": "d@9", "text": "So.", "label": 1},
]


def labels_of(path):
    return [row for batch in label_batches(path) for row in batch.to_pylist()]


def test_labels_name_their_sentence_by_id_by_text_or_by_both(tmp_path):
    tabs = "question_id\tsentence_id\tsentence\tlabel\nq1\td@0\t\t1\nq1\t\tIt is so.\t0\n2\td@9\tSo.\t1\n"
    assert labels_of(put(tmp_path / "l.tsv", tabs)) == LABELS
    lines = [{("sentence" if k == "text" else k): v for k, v in row.items() if k != "number"} for row in LABELS]
    lines[2]["question_id"] = 2
    put(tmp_path / "l.jsonl", "\n" + "".join(json.dumps(line) + "\n" for line in lines))
    assert labels_of(tmp_path / "l.jsonl") == LABELS


def test_labels_are_read_from_parquet_with_rows_from_1(tmp_path):
    table = pa.table({name: [row[name] for row in LABELS] for name in ("question_id", "sentence_id", "text", "label")})
    pq.write_table(table.append_column("note", pa.array(["", "", ""])), tmp_path / "l.parquet")
    assert labels_of(tmp_path / "l.parquet") == [{**row, "number": n} for n, row in enumerate(LABELS, 1)]
    pq.write_table(pa.table({"question_id": ["q", "q"], "sentence": ["a", ""], "label": ["1", "1"]}), tmp_path / "l.parquet")
    with pytest.raises(JobError, match=r"l.parquet:2: needs question_id, .*; it has question_id, sentence, label"):
        labels_of(tmp_path / "l.parquet")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("question_id\tsentence_id\tlabel\nq\td@0\t2\n", r":2: label '2'; it must be 0 or 1"),
        (
            "question_id\tanswer\tlabel\nq\tA\t1\n",
            r":2: needs question_id, sentence_id or sentence, and label; it has question_id, answer",
        ),
        ("question_id\tsentence_id\tlabel\n", "no label in it"),
    ],
)
def test_bad_labels_are_refused_with_their_line(tmp_path, text, says):
    with pytest.raises(JobError, match=says) as e:
        labels_of(put(tmp_path / "l.tsv", text))
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "7\ttest\n8\ttrain\n7\ttest\n"),
        ("b.tsv", "split\tquestion_id\ntest\t7\ntrain\t8\n"),
        ("c.jsonl", '{"_id": 7, "split": "test"}\n{"_id": "8", "split": "train"}\n'),
    ],
)
def test_splits_are_read_from_tsv_and_jsonl(tmp_path, name, text):
    assert read_splits(put(tmp_path / name, text)) == {"7": "test", "8": "train"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("7\ttest\n8\tvalid\n", ":2: question id '8' and split 'valid'; give question_id, and as split train, dev, test"),
        ("7\ttest\n7\tdev\n", ":2: question id '7' is in test already, dev here"),
        ("7\n", ":1: no header line; without one it must have the columns question_id, split"),
        ("", ": no question in it"),
    ],
)
def test_bad_splits_are_refused_with_their_line(tmp_path, text, says):
    with pytest.raises(JobError) as e:
        read_splits(put(tmp_path / "splits.tsv", text))
    assert says in str(e.value) and e.value.code == BAD_DATA
