"""Labels from files and folders, and which are refused with which words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.data.formats.format import TableForm
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.learn.evaluate.join import join
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from testing.labelled_set import write_three_each

QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n"


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


@pytest.mark.parametrize(
    "content",
    [
        "q1\t0\ta \t1\nq1 \t0\tb\t0\nq2\t0\tc\t2\n",
        "q1 0\ta 1\nq1 0\tb 0\nq2  0\tc 2 \n",
        "q1\u00a00 a 1\nq1\t0 b 0\nq2 0 c 2\n",
        "query_id\tcorpus_id\tscore\nq1\ta\t1\nq1\tb\t0\nq2\tc\t2\n",
        "\tqid\tdocno\tlabel\titeration\t\n0\tq1\ta\t1\t0\t\n1\tq1\tb\t0\t0\t\n2\tq2\tc\t2\t0\t\n",
        "docno qid relevance\na q1 1\nb q1 0\nc q2 2\n",
        '"qid"\t"docno"\t"label"\n"q1"\t"a"\t1\n"q1"\t"b"\t0\n"q2"\t"c"\t2\n',
    ],
)
def test_qrels_are_read_at_any_white_space_and_by_the_names_of_other_tools(tmp_path, content):
    expected = as_dicts(read_labels(text(tmp_path, "trec.txt", QRELS)).values)
    assert as_dicts(read_labels(text(tmp_path, "qrels.tsv", content)).values) == expected


def test_ids_that_hold_blanks_stand_between_tabs(tmp_path):
    for content in ("q 1\t0\td 1\t1\n", "q 1\td 1\t1\n", "q 1\td\t1\n"):
        labels = as_dicts(read_labels(text(tmp_path, "qrels.txt", content)).values)
        assert list(labels) == ["q 1"]


def test_a_table_of_labels_without_a_key_is_refused_and_the_user_may_name_it(tmp_path):
    content = "frage\tantwort\turteil\nq1\ta\t1\n"
    path = text(tmp_path, "qrels.tsv", content)
    pq.write_table(pa.table({"frage": ["q1"], "antwort": ["a"], "urteil": [1]}), tmp_path / "qrels.parquet")
    columns = Columns.of(["question_id=frage", "candidate_id=antwort", "label=urteil"])
    for file in (path, tmp_path / "qrels.parquet"):
        with pytest.raises(
            JobError, match=r"no column question_id; it has frage, .* write --columns question_id"
        ):
            read_labels(file)
        assert as_dicts(read_labels(file, TableForm(columns=columns)).values) == {"q1": {"a": 1}}


def test_a_data_set_gives_labels_and_the_questions_texts(tmp_path):
    labels = read_labels(write_three_each(tmp_path))
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
    with pytest.raises(JobError, match="holds Document; give labels/sentences for scores of sentences"):
        read_labels(sample_run / "documents")
    with pytest.raises(JobError, match=r"has no _manifest\.json"):
        read_labels(sample_run)
