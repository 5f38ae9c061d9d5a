"""Names of columns say where a table has its key: in a job, at the command line, and in training files."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import answermill as am
from answermill.files.atomic_files import sha256
from answermill.pipelines.config.job_file import Retrieve, load
from answermill.pipelines.config.training_file import load_job
from answermill.pipelines.data.inputs.columns import CANDIDATES, QRELS, QUESTIONS, SENTENCE_LABELS, Columns
from answermill.pipelines.data.inputs.labels import LabelSource
from answermill.pipelines.data.inputs.questions import choose
from answermill.pipelines.data.inputs.tables import read_answers, read_splits
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import BAD_DATA, SETTINGS, USAGE, JobError
from answermill.pipelines.learn.train.train import _questions
from answermill.pipelines.specs.retrieve import QUESTIONS as ASKED
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.steps.annotate.annotate import known_labels
from answermill.pipelines.steps.retrieve import retrieve
from testing.command import call

SET = "nr\tfrage\tsatz\turteil\n7\twho is a\tOne two.\t0\n7\twho is a\tThree four.\t1\n"
NAMES = ("question_id=nr", "question=frage", "text=satz", "label=urteil")


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "names", "by_field"),
    [
        (QUESTIONS, "qid query", "question_id=qid text=query"),
        (QUESTIONS, "_id text metadata", "question_id=_id text=text"),
        (QUESTIONS, "id question_id text", "question_id=question_id text=text"),
        (QUESTIONS, "topic id question", "question_id=id text=question"),
        (
            SENTENCE_LABELS,
            "question_id candidate_id text label",
            "question_id=question_id text=text label=label",
        ),
        (QRELS, "query-id corpus-id score", "question_id=query-id candidate_id=corpus-id label=score"),
        (QRELS, "qid docid docno label", "question_id=qid candidate_id=docno label=label"),
        (QRELS, "qid pid rel", "question_id=qid candidate_id=pid label=rel"),
        (
            SENTENCE_LABELS,
            "metadata.question_id text label",
            "question_id=metadata.question_id text=text label=label",
        ),
        (
            CANDIDATES,
            "qid query docno text label",
            "question_id=qid question=query candidate_id=docno text=text label=label",
        ),
    ],
)
def test_a_field_has_the_surest_of_its_usual_names(kind, names, by_field):
    assert Columns().find(kind, names.split()) == dict(pair.split("=") for pair in by_field.split())


def test_a_job_names_the_columns_of_questions_labels_and_controls(tmp_path):
    put(tmp_path / "q.tsv", "nr\tfrage\n7\tWho wrote it?\n")
    put(tmp_path / "l.tsv", "nr\tsatz\turteil\n7\tHe did.\t1\n")
    put(
        tmp_path / "job.toml",
        """
        [retrieve]
        questions = "q.tsv"
        columns = ["question_id=nr", "text=frage"]
        [annotate]
        controls = "l.tsv"
        columns = ["question_id=nr", "sentence=satz", "label=urteil"]
        [propagate]
        labels = "l.tsv"
        columns = ["question_id=nr", "sentence=satz", "label=urteil"]
        """,
    )
    job = load(tmp_path / "job.toml")
    assert [q.question_id for q in choose(tmp_path / "q.tsv", job.retrieve).questions] == ["7"]
    assert known_labels(job).find("7", {"d@0": "He did."})["d@0"].label == 1
    source = LabelSource.of(job, tmp_path)
    assert not source.may_contradict() and source.digest().startswith(sha256(tmp_path / "l.tsv") + " ")

    with pytest.raises(JobError, match=r"it has nr, satz, urteil.*write propagate.columns = \["):
        LabelSource.of(load(tmp_path / "job.toml", ["propagate.columns=[]"]), tmp_path).may_contradict()
    with pytest.raises(JobError, match=r"retrieve\.columns: 'nr'") as e:
        choose(tmp_path / "q.tsv", Retrieve(questions="q.tsv", columns=["nr"]))
    assert e.value.code == SETTINGS


def test_a_name_that_the_table_has_no_use_for_is_refused(tmp_path):
    tsv = put(tmp_path / "q.tsv", "question_id\ttext\tnote\n7\tWho?\t1\n")
    rows = put(tmp_path / "q.jsonl", '{"question_id": 7, "text": "Who?"}\n')
    for file in (tsv, rows):
        with pytest.raises(JobError, match="'label=note': a table of this kind has no label; it may") as e:
            choose(file, Retrieve(questions="q.tsv", columns=["label=note"]))
        assert e.value.code == SETTINGS


def test_without_names_of_columns_the_digest_of_an_input_is_that_of_its_bytes(tmp_path):
    file = put(tmp_path / "q.tsv", "question_id\ttext\n7\tWho?\n")
    assert Columns().digest(file) == sha256(file) != Columns.of(["text=x"]).digest(file)


def test_splits_and_answers_may_have_columns_of_other_names(tmp_path):
    columns = Columns.of(["question_id=nr", "split=teil", "answers=antwort"], are_of_several=True)
    assert read_splits(put(tmp_path / "s.tsv", "nr\tteil\n7\ttest\n"), columns) == {"7": "test"}
    table = put(tmp_path / "a.tsv", "question_id\tantwort\n7\tRome\n")
    assert read_answers(table, columns) == {"7": ["Rome"]}


def test_commands_that_read_tables_take_their_columns(tmp_path, capsys):
    data = put(tmp_path / "set.tsv", SET)
    assert (
        call("dataset", data, "--tokens", "blanks", "--out", tmp_path / "set.parquet", "--columns", *NAMES)
        == 0
    )
    assert [row.candidate_id for row in am.read_dataset(data, columns=NAMES)] == ["0", "1"]
    assert call("evaluate", "RR", "--labels", data, "--columns", *NAMES) == 0
    assert call("candidates", data, "--out", tmp_path / "run", "--columns", *NAMES) == 0
    assert [q.question_id for q in ASKED.open(tmp_path / "run").read()] == ["7"]

    scores = put(tmp_path / "run.tsv", "nr\tsatz_nr\tnote\n7\t0\t0.5\n7\t1\t0.9\n")
    named = ("question_id=nr", "candidate_id=satz_nr", "score=note")
    assert call("evaluate", scores, "--labels", tmp_path / "set.parquet", "--columns", *named) == 0
    qrels = put(tmp_path / "qrels.tsv", "qid\tdocno\tscore\n7\t0\t0\n7\t1\t1\n")
    assert call("evaluate", scores, "--labels", qrels, "--columns", *named) == 0
    both = (scores, scores, "--labels", tmp_path / "set.parquet", "--rounds", "10")
    capsys.readouterr()
    assert call("compare", *both, "--columns", *named) == 0
    assert call("compare", *both) == BAD_DATA
    assert "no column question_id; it has nr, satz_nr, note. If one" in capsys.readouterr().err
    assert call("evaluate", scores, "--labels", data, "--columns", "nummer=nr") == USAGE
    assert "no table has 'nummer'; known: annotator, answer, candidate_id" in capsys.readouterr().err


def test_a_set_of_parquet_may_have_columns_of_other_names(tmp_path):
    columns = {"nr": ["7", "7"], "frage": ["who?"] * 2, "document_id": ["d"] * 2, "document_title": [""] * 2}
    columns |= {"sentence_index": [0, 1], "satz": ["One.", "Two."], "label": [0, 1]}
    pq.write_table(pa.table(columns), tmp_path / "set.parquet")
    names = ["question_id=nr", "question=frage", "sentence=satz"]
    rows = list(am.read_dataset(tmp_path / "set.parquet", columns=names))
    assert [(row.question_id, row.candidate_id, row.label) for row in rows] == [
        ("7", "d-0", 0),
        ("7", "d-1", 1),
    ]
    with pytest.raises(JobError, match="no column 'satzz', which is to be sentence; it has nr, frage"):
        list(am.read_dataset(tmp_path / "set.parquet", "parquet", ["sentence=satzz"]))


def test_a_training_file_names_the_columns_of_its_sets(tmp_path):
    put(tmp_path / "set.tsv", SET)
    section = {"name": "x", "licence": "x", "train": ["set.tsv"], "dev": ["set.tsv"], "columns": list(NAMES)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    job = put(tmp_path / "train.toml", "\n".join(['[model]\nreranker = "cosinet"\n[data]', *lines, ""]))
    (rows,) = _questions(load_job(job), "set.tsv")
    assert [row.label for row in rows] == [0, 1] and rows[0].question_id == "7"


def test_a_run_says_on_the_screen_and_in_its_manifest_that_ids_are_line_numbers(sample_run, tmp_path):
    path = copy_to(tmp_path)
    put(tmp_path / "q.tsv", "text\nWhat are tides?\nWhat is a delta?\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/shards").symlink_to(sample_run / "shards")
    job = load(path, ["retrieve.questions='q.tsv'", "retrieve.sources=['bm25']", "retrieve.depth=2"])
    assert "2 given = 2" not in (summary := retrieve.retrieve(job, tmp_path / "run"))
    assert "2 questions (their ids are line numbers)," in summary
    assert [q.question_id for q in ASKED.open(tmp_path / "run").read()] == ["2", "3"]
    assert RETRIEVE.counts_of(ASKED.open(tmp_path / "run").manifest).questions_numbered == 2
