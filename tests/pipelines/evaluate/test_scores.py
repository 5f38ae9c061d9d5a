"""Scores and labels from files: what is taken, what is refused, with which words."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from pipelines.evaluate.scores import join, read_labels, read_scores
from pipelines.execution.parquet_folder import Folder
from schemas.labels import LabelledCandidate
from schemas.ranked import ScoredCandidate

RUN = "q1 Q0 a 1 3.5 tag\nq1 Q0 b 2 2.5 tag\nq2 Q0 c 1 1.0 tag\n"
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


def as_dicts(rows):
    made: dict[str, dict[str, float]] = {}
    for q, c, value in zip(rows.question_id.to_pylist(), rows.candidate_id.to_pylist(), rows.value.tolist(), strict=True):
        made.setdefault(q, {})[c] = value
    return made


def labels_of(path):
    """question id → candidate id → label, as the metrics see them."""
    labels = read_labels(path)
    joined = join(labels.rows, labels)
    ids = labels.rows.candidate_id.to_pylist()
    made: dict[str, dict[str, int]] = {}
    for q, c, label in zip(joined.judged.question, ids, joined.judged.label, strict=True):
        made.setdefault(joined.question_ids[q], {})[c] = int(label)
    return made


def test_a_trec_run_is_joined_with_trec_qrels_whatever_its_ranks_say(tmp_path):
    run = text(tmp_path, "run.txt", RUN.replace(" 2 2.5", " 0 2.5"))
    joined = join(read_scores(run), read_labels(text(tmp_path, "qrels.txt", QRELS)))
    assert joined.question_ids == ("q1", "q2")
    assert joined.judged.label.tolist() == [1, 0, 2] and joined.judged.score.tolist() == [3.5, 2.5, 1.0]


def test_beir_qrels_and_a_parquet_of_labels_say_the_same(tmp_path):
    trec = read_labels(text(tmp_path, "qrels.txt", QRELS))
    beir = read_labels(text(tmp_path, "test.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t0\nq2\tc\t2\n"))
    columns = {"question_id": ["q1", "q1", "q2"], "candidate_id": ["a", "b", "c"], "label": [1, 0, 2]}
    pq.write_table(pa.table(columns), tmp_path / "labels.parquet")
    assert as_dicts(trec.rows) == as_dicts(beir.rows) == as_dicts(read_labels(tmp_path / "labels.parquet").rows)
    assert not trec.closed and as_dicts(trec.rows)["q2"] == {"c": 2}


def test_a_data_set_gives_labels_and_the_questions_texts(tmp_path):
    labels = read_labels(dataset(tmp_path))
    assert labels.closed and labels.questions == {"q1": "Question 1?", "q2": "Question 2?"}
    assert as_dicts(labels.rows)["q1"] == {"q1-0": 0, "q1-1": 1, "q1-2": 0}


def test_negative_judgements_are_kinds_of_wrong(tmp_path):
    assert labels_of(text(tmp_path, "qrels.txt", "q1 0 a -2\nq1 0 b 1\n"))["q1"] == {"a": 0, "b": 1}


def test_what_the_run_lacks_is_there_as_not_ranked_and_what_nobody_judged_as_unjudged(tmp_path):
    run = text(tmp_path, "run.txt", "q1 Q0 a 1 3.5 t\nq1 Q0 x 2 2.5 t\nq9 Q0 c 1 1.0 t\n")
    joined = join(read_scores(run), read_labels(text(tmp_path, "qrels.txt", QRELS)))
    assert joined.judged.label.tolist() == [1, -1, 0, 2]
    assert joined.judged.ranked.tolist() == [True, True, False, False]
    assert joined.unknown_questions == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1 Q0 a 1 nan t\n", r"run.txt:1: score nan for candidate a of question q1"),
        ("q1 Q0 a 1 1 t\nq1 Q0 b 1 inf t\n", r"run.txt:2: score inf"),
        ("q1 Q0 a 1 1 t\nq1 Q0 b 2 1 t\nq1 Q0 a 3 1 t\n", r"run.txt:3: candidate a of question q1 comes twice"),
        ("q1 Q0 a 1 high t\n", r"run.txt:1: score 'high' is no number"),
        ("q1 Q0 a 1 1\n", r"run.txt:1: 5 columns, where a TREC run has 6"),
        ("", "no score in it"),
        ("q7 Q0 a 1 1 t\n", "none of its 1 questions has a label in"),
    ],
)
def test_bad_scores_are_refused_with_file_and_line(tmp_path, content, says):
    labels = read_labels(text(tmp_path, "qrels.txt", QRELS))
    with pytest.raises(JobError, match=says) as e:
        join(read_scores(text(tmp_path, "run.txt", content)), labels)
    assert e.value.code == BAD_DATA


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


def test_an_id_that_a_data_set_does_not_have_is_an_error(tmp_path):
    labels = read_labels(dataset(tmp_path))
    with pytest.raises(JobError, match=r"run.txt:2: candidate q1-9 of question q1 is not in .*set.parquet"):
        join(read_scores(text(tmp_path, "run.txt", "q1 Q0 q1-0 1 1 t\nq1 Q0 q1-9 2 0 t\n")), labels)
    with pytest.raises(JobError, match=r"run.txt:1: candidate a of question q7 is not in"):
        join(read_scores(text(tmp_path, "run.txt", "q7 Q0 a 1 1 t\n")), labels)


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


def test_a_file_that_is_no_parquet_says_so(tmp_path):
    (tmp_path / "scores.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(JobError, match="not readable as Parquet"):
        read_scores(tmp_path / "scores.parquet")


def test_missing_files_are_missing_inputs(tmp_path):
    for read in (read_labels, read_scores):
        with pytest.raises(JobError, match="no such file or folder") as e:
            read(tmp_path / "absent")
        assert e.value.code == INPUT_MISSING


# A finished run of the sample job.


def test_a_scored_folder_is_in_the_plans_order_with_the_dropped_ones_after_the_kept(sample_run):
    rows = read_scores(sample_run / "scored")
    ours = np.array(rows.question_id.to_pylist()) == "q05"
    values = rows.value[ours].tolist()
    assert len(values) > 100 and values == sorted(values, reverse=True)
    assert len(set(np.array(rows.candidate_id.to_pylist())[ours])) == len(values)


def test_a_stage_gives_its_own_scores_and_the_position_the_original_order(sample_run):
    cosinet = read_scores(sample_run / "scored", "cosinet")
    assert len(set(cosinet.value.tolist())) > 1_000
    cascade = read_scores(sample_run / "scored", "cascade")
    assert 0 < len(cascade) < len(cosinet) == len(read_scores(sample_run / "scored", "position"))


def test_a_sentence_keeps_its_score_where_its_passage_was_read_instead_and_no_passage_stands_among_sentences(sample_run):
    rows = list(Folder.open(sample_run / "scored", ScoredCandidate, "rerank").read())
    sentences = {(row.question_id, row.candidate_id): row for row in rows if row.unit == "sentence"}
    assert len(sentences) < len(rows) and any(row.fate == "grouped" for row in rows)
    for by in ("final", "position", "cosinet", "cascade"):
        found = read_scores(sample_run / "scored", by)
        ids = set(zip(found.question_id.to_pylist(), found.candidate_id.to_pylist(), strict=True))
        passed = {key for key, row in sentences.items() if by in {"final", "position", *(s.stage for s in row.stages)}}
        assert ids == passed


def test_an_unknown_stage_is_refused_with_the_known_ones(sample_run):
    known = "final, position, cascade, complete, cosinet, peasi.easi, peasi.pr, similarity"
    with pytest.raises(JobError, match=f"no stage 'overlap'; known: {re.escape(known)}") as e:
        read_scores(sample_run / "scored", "overlap")
    assert e.value.code == USAGE


def test_labels_folders_are_open_labels_by_sentence_passage_and_document(sample_run):
    for name in ("sentences", "passages", "documents"):
        labels = read_labels(sample_run / "labels" / name)
        assert not labels.closed and len(as_dicts(labels.rows)) > 50


def test_another_folder_is_no_labels_folder(sample_run):
    with pytest.raises(JobError, match="holds Document; give one of the folders below labels/"):
        read_labels(sample_run / "documents")
    with pytest.raises(JobError, match=r"has no _manifest\.json"):
        read_labels(sample_run)
