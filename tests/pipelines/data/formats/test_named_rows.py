"""CSV and JSON lines of question, sentence and label, by whatever names their columns have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.data.formats.format import TableForm
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.schemas.labels import LabelledCandidate

ROWS = [
    ("q1", "Who sang it, and when?", 'She said "no".', "0"),
    ("q1", "Who sang it, and when?", "He sang it, in 1970.", "1"),
    ("q2", "Where?", "Here.", "0"),
]
NAMES = ("question_id", "question", "sentence", "label")
OTHER = ("nr", "query", "passage", "relevance")
OWN = Columns.of(["question_id=nr"])


def csv(names: tuple[str, ...] = NAMES, rows: list[tuple[str, ...]] = ROWS, between: str = ",") -> str:
    lines = [names, *(tuple('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)]
    return "\n".join(between.join(line) for line in lines) + "\n"


def jsonl(names: tuple[str, ...] = NAMES, rows: list[tuple[str, ...]] = ROWS) -> str:
    objects = (dict(zip(names, (*row[:-1], int(row[-1])), strict=True)) for row in rows)
    return "".join(json.dumps(row) + "\n" for row in objects)


def short(rows: list[LabelledCandidate]) -> list[tuple[str, str, str, str]]:
    return [(row.question_id, row.question, row.text, str(int(row.label))) for row in rows]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("set.csv", csv()),
        ("set.csv", csv(between=";")),
        ("set.csv", "sep=;\n" + csv(between=";")),
        ("set.csv", csv(between="\t")),
        ("set.jsonl", jsonl()),
        ("set.csv", csv(OTHER)),
        ("set.jsonl", jsonl(OTHER)),
    ],
)
def test_the_rows_are_the_same_in_each_form_and_by_each_name(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    columns = OWN if "nr" in text.split("\n")[0] else Columns()
    assert recognise(tmp_path / name, columns) == name.removeprefix("set.")
    rows = list(read_dataset(tmp_path / name, TableForm(None, columns)))
    assert short(rows) == ROWS and [row.position for row in rows] == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("set.csv", csv(rows=[(*ROWS[0][:2], "", "0")])), ("set.jsonl", jsonl(rows=[(*ROWS[0][:2], "", "0")]))],
)
def test_the_first_candidate_may_be_empty_as_any_other(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert [row.text for row in read_dataset(tmp_path / name)] == [""]


def test_the_index_that_pandas_writes_is_no_unknown_column(tmp_path: Path) -> None:
    rows = [(str(n), *row[1:]) for n, row in enumerate(ROWS)]
    (tmp_path / "set.csv").write_text(csv(("", *NAMES[1:]), rows))
    read = list(read_dataset(tmp_path / "set.csv"))
    assert [(row.question, row.text) for row in read] == [row[1:3] for row in ROWS]


def test_a_line_end_within_a_cell_of_a_csv_stays_as_it_is(tmp_path: Path) -> None:
    text = 'question_id,question,sentence,label\r\nq,Who?,"He,\r\nor she.\n",1\r\n'
    (tmp_path / "set.csv").write_bytes(text.encode())
    assert [(row.text, row.label) for row in read_dataset(tmp_path / "set.csv")] == [("He,\r\nor she.\n", 1)]


def test_a_whole_number_is_an_id_without_its_point(tmp_path: Path) -> None:
    row = {"question_id": 7.0, "question": "Who?", "sentence": "He.", "label": 1}
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    assert [row.question_id for row in read_dataset(tmp_path / "set.jsonl")] == ["7"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_without_ids_a_run_of_equal_questions_is_one(tmp_path: Path, form: str) -> None:
    rows = [row[1:] for row in ROWS]
    text = csv(NAMES[1:], rows) if form == "csv" else jsonl(NAMES[1:], rows)
    (tmp_path / f"set.{form}").write_text(text)
    ids = [row.question_id for row in read_dataset(tmp_path / f"set.{form}")]
    assert ids == [f"{form}-00000", f"{form}-00000", f"{form}-00001"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("set.csv", csv(("nr", *NAMES[1:])), "set.csv:2: no column question_id; it has nr, "),
        ("set.csv", csv(rows=[("q", "Who?", "He.", "2")]), "set.csv:2: label '2'; it must be one of 0, "),
        (
            "set.jsonl",
            jsonl(rows=[("q", "Who?", ["He."], "1")]),
            "set.jsonl:1: text is \"['He.']\"; give text",
        ),
        (
            "set.jsonl",
            jsonl() + '{"question_id": "q3", "question": "Why?", "label": 1}\n',
            "set.jsonl:4: no ",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(JobError) as e:
        list(read_dataset(tmp_path / name, name.removeprefix("set.")))
    assert says in str(e.value) and e.value.code == BAD_DATA
