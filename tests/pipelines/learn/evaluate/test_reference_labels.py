"""Labels from files and folders, and which are refused with which words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.learn.evaluate.join import join
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.schemas.labels import LabelledCandidate

QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n"


def dataset(folder: Path) -> Path:
    rows = [
        LabelledCandidate(f"q{n}", f"Question {n}?", f"q{n}-{i}", "", "", i, f"Text {i}.", int(i == n % 3))
        for n in (1, 2)
        for i in range(3)
    ]
    pq.write_table(LabelledCandidate.table(rows), folder / "set.parquet")
    return folder / "set.parquet"


def text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def as_dicts(values):
    """question id → candidate id → value."""
    result: dict[str, dict[str, float]] = {}
    for q, c, value in zip(
        values.question_id.to_pylist(), values.candidate_id.to_pylist(), values.value.tolist(), strict=True
    ):
        result.setdefault(q, {})[c] = value
    return result


def labels_of(path):
    """question id → candidate id → label, as the metrics see them."""
    labels = read_labels(path)
    joined = join(labels.values, labels)
    ids = labels.values.candidate_id.to_pylist()
    result: dict[str, dict[str, int]] = {}
    for q, c, label in zip(joined.judged.question, ids, joined.judged.label, strict=True):
        result.setdefault(joined.question_ids[q], {})[c] = int(label)
    return result


def test_beir_qrels_and_a_parquet_of_labels_say_the_same(tmp_path):
    trec = read_labels(text(tmp_path, "qrels.txt", QRELS))
    beir = read_labels(
        text(tmp_path, "test.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t0\nq2\tc\t2\n")
    )
    columns = {"question_id": ["q1", "q1", "q2"], "candidate_id": ["a", "b", "c"], "label": [1, 0, 2]}
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    assert (
        as_dicts(trec.values)
        == as_dicts(beir.values)
        == as_dicts(read_labels(tmp_path / "labels.parquet").values)
    )
    assert not trec.closed and as_dicts(trec.values)["q2"] == {"c": 2}


def test_a_data_set_gives_labels_and_the_questions_texts(tmp_path):
    labels = read_labels(dataset(tmp_path))
    assert labels.closed and labels.questions == {"q1": "Question 1?", "q2": "Question 2?"}
    assert as_dicts(labels.values)["q1"] == {"q1-0": 0, "q1-1": 1, "q1-2": 0}


def test_negative_judgements_are_kinds_of_wrong(tmp_path):
    assert labels_of(text(tmp_path, "qrels.txt", "q1 0 a -2\nq1 0 b 1\n"))["q1"] == {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1 0 a 1\nq1 0 a 0\n", "qrels.txt:2: a of question q1 is labelled 1 and 0"),
        ("q1 0 a yes\n", "qrels.txt:1: label 'yes' is no number"),
        ("q1 0 a 1\n\nq1 0 b 1.5\n", r"qrels.txt:3: label 1.5; it must be a whole number from -100 to 100"),
        ("q1 0 a 1000\n", "label 1000; it must be"),
        ("q1 0 a nan\n", "label nan; it must be"),
        ("q1 a\n", "qrels.txt:1: 2 columns, where qrels have 4"),
        ("\n", "no label in it"),
    ],
)
def test_bad_labels_are_refused_with_file_and_line(tmp_path, content, says):
    with pytest.raises(JobError, match=says) as e:
        labels_of(text(tmp_path, "qrels.txt", content))
    assert e.value.code == BAD_DATA


def test_labels_folders_are_open_labels_by_sentence_passage_and_document(sample_run):
    for name in ("sentences", "passages", "documents"):
        labels = read_labels(sample_run / "labels" / name)
        assert not labels.closed and len(as_dicts(labels.values)) > 50


def test_another_folder_is_no_labels_folder(sample_run):
    with pytest.raises(JobError, match="holds Document; give one of the folders below labels/"):
        read_labels(sample_run / "documents")
    with pytest.raises(JobError, match=r"has no _manifest\.json"):
        read_labels(sample_run)
