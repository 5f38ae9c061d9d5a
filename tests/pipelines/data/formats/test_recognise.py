from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import answermill.pipelines.data.sample
from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError

PAIR = {"question_id": "7", "question": "Who?", "positive_ids": ["a"]}
NQ = {
    "annotations": [],
    "document_text": "word " * 50_000,
    "long_answer_candidates": [],
    "question_text": "who",
}
SQUAD = {"version": "2.0", "data": [{"title": "T", "paragraphs": [{"qas": [], "context": "C. " * 20_000}]}]}


def put(path, text):
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n", "wikiqa"),
        ("question\tsentence\tlabel\n", "tsv"),
        ("who is it\tIt is he.\t0\nwho is it\tYes.\t1\n", "tsv"),
        ("who is it\tIt is he.\t1\nwho is it\tIt is not he.\t3\n", "asnq"),
        ("who is it\tIt is he.\t1\n" * 5_000 + "who is it\tIt is not he.\t4\n", "asnq"),
        ("<QApairs id='1.1'>\n<question>\n", "trecqa"),
        (json.dumps(SQUAD), "squad"),
        (json.dumps(SQUAD, indent=1), "squad"),
        (json.dumps(NQ) + "\n", "nq-la"),
        (json.dumps(PAIR) + "\n", "insuranceqa"),
        ("idx_1 idx_2\t17 18\n", "insuranceqa"),
        ("17 18\tidx_1 idx_2\t17 18 19\n", "insuranceqa"),
        ("who is it\tIt is he.\t1\nwho is it\tYes it is.\t1\n", None),  # all 1: tsv or asnq
        ("who is it\tIt is he.\t1\nwho is it\tYes it is.\t2\n", None),  # of two labels, or all wrong in ASNQ
        ("who is it\tIt is he.\t0\nwho is it\tYes it is.\t4\n", None),
        ("who is it\tIt is he.\t1.0\nwho is it\tYes it is.\t0.0\n", "tsv"),
        ("who is it\tIt is he.\tTrue\nwho is it\tYes it is.\tTrue\n", "tsv"),
        ("who is it\tIt is he.\tyes\nwho is it\tYes it is.\tno\n", None),
        ("1 0 CACM-1410 1\n1 0 CACM-1572 1\n", None),
        ("1\t0\tCACM-1410\t1\n", None),
        ("1\tCACM-1410\t1\n1\tCACM-1411\t0\n", None),
        ("query-id\tcorpus-id\tscore\n1\t7\t1\n", None),
        ("1 Q0 CACM-1410 1 12.5 run\n", None),
        ("question_id\ttext\n1\tWho is it?\n", None),
        ("question_id\tsentence\tlabel\n1\tIt is he.\t1\n", None),
        ("17\tidx_1 idx_2\n", None),  # insuranceQA's answers
        ('{"question_id": "7", "question": "Who?"}\n', None),
        ("{broken\n", None),
        ("<html><body>", None),
        ("Just a text.\n", None),
        ("", None),
    ],
)
def test_a_form_is_known_by_its_first_lines_or_not_at_all(tmp_path, text, form):
    assert recognise(put(tmp_path / "file", text)) == form


def test_bytes_folders_missing_files_and_other_parquet_are_no_data_set(tmp_path):
    (tmp_path / "b").write_bytes(bytes(range(256)))
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00")
    pq.write_table(pa.table({"question_id": ["7"], "question": ["Who?"]}), tmp_path / "q.parquet")
    put(tmp_path / "t.parquet", "text")
    names = ("b", "cut.gz", "q.parquet", "t.parquet", "none.tsv", "none.parquet", ".")
    assert [recognise(tmp_path / name) for name in names] == [None] * len(names)


def test_what_cannot_be_read_is_refused_with_the_forms_there_are(tmp_path):
    path, empty = put(tmp_path / "x.txt", "Just a text.\n"), put(tmp_path / "empty.csv", "")

    for arguments, says, code in [
        ((tmp_path / "none.tsv",), "none.tsv: no such file", INPUT_MISSING),
        (
            (path,),
            r"x.txt: not recognised as a data set; name its form, one of: wikiqa, .*parquet",
            BAD_DATA,
        ),
        ((empty,), "empty.csv: the file is empty", BAD_DATA),
        ((path, "webqa"), "x.txt: unknown form 'webqa'; known: wikiqa", USAGE),
    ]:
        with pytest.raises(JobError, match=says) as raised:
            read_dataset(*arguments)  # at once, not with the first candidate
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"who is it\tIt is he.\tyes\nwho is it\tIs it?\tno\n",
            r"Its rows end in 'no', 'yes'; .* write 0 and 1",
        ),
        (b"who is it\tIt is he.\t0\nwho is it\tIs it?\t4\n", r"Its rows end in '0', '4'; .* write 0 and 1"),
        (b"who is it\tIt is he.\t1\n", r"Its labels are all 1: name the form, tsv or asnq"),
        (b"who is it\tIt is he.\t1\nwho is it\tIs it?\t2\n", r"Its labels are 1 and 2: write 0 and 1, or"),
        (
            b"frage\tsatz\tlabel\nwho is it\tIt is he.\t1\n",
            r"Its first line has frage, satz, label; if these",
        ),
        (b"who is it\tIt is he.\t1\ncaf\xe9 it\tIs it?\t0\n", r"x.tsv:2: byte 4 of the line is not UTF-8"),
        (b"PK\x03\x04\x14\x00", r"x.tsv: this file is no text: it is a spreadsheet or ZIP file"),
    ],
)
def test_a_table_that_is_not_recognised_is_refused_with_what_is_wrong_in_it(tmp_path, content, says):
    (tmp_path / "x.tsv").write_bytes(content)
    with pytest.raises(JobError, match=says) as e:
        read_dataset(tmp_path / "x.tsv")
    assert e.value.code == BAD_DATA and len(str(e.value)) < 500


def test_json_that_is_nested_too_deeply_is_refused_with_its_name(tmp_path):
    put(tmp_path / "deep.jsonl", '{"a":' + "[" * 100_000)
    with pytest.raises(JobError, match=r"deep\.jsonl: not recognised as a data set") as e:
        read_dataset(tmp_path / "deep.jsonl")
    assert e.value.code == BAD_DATA


def test_no_other_file_of_ours_is_taken_for_a_data_set(shared_data):
    sample = Path(answermill.pipelines.data.sample.__file__).parent
    assert {path.name for path in sample.iterdir() if recognise(path)} == set()
    folders = {
        "wikiqa",
        "squad",
        "selqa",
        "questions",
        "insuranceqa-v1-partial",
        "retrieval",
        "corpus-wiki",
        "embeddings",
    }
    files = sorted(path for folder in folders for path in (shared_data / folder).rglob("*") if path.is_file())
    forms = {
        str(path.relative_to(shared_data)): form for path in files if (form := recognise(path)) is not None
    }

    assert len(files) > 40
    assert forms == (
        {f"wikiqa/wikiqa-{split}.parquet": "parquet" for split in ("train", "dev", "test")}
        | {f"squad/squad-sent-{split}.parquet": "parquet" for split in ("train", "dev", "test")}
        | {f"selqa/selqa-{split}.parquet": "parquet" for split in ("dev", "test")}
        | {
            f"squad/{name}.json.gz": "squad"
            for name in ("squad-dev-v1.1", "squad-dev-v2.0", "squadshifts-new-wiki-v1.0")
        }
        | {f"insuranceqa-v1-partial/{split}.jsonl.gz": "insuranceqa" for split in ("train", "dev", "test")}
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.csv", "question_id,question,label"),
        ("a.jsonl", '{"question_id": "q", "question": "Who?", "label": 1}'),
        ("a.tsv", "question_id\tquestion\tlabel"),
    ],
)
def test_a_table_without_a_needed_column_is_refused_with_those_that_it_has(
    tmp_path: Path, name: str, line: str
) -> None:
    (tmp_path / name).write_text(f"{line}\n")
    with pytest.raises(JobError, match="first line has question_id, question, label; if these are columns,"):
        read_dataset(tmp_path / name)
