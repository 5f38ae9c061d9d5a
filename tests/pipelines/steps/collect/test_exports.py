"""Exports of annotation tools: each form is recognised, read whole, and refused where it is cut off."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from answermill.pipelines.data.annotation_tools import export_forms
from answermill.pipelines.data.annotation_tools.spreadsheet import quote, unquote
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.steps.collect.export_files import CHUNK
from answermill.pipelines.steps.collect.exports import Export

Said = tuple[str, str, str, int | None, str]


def said(export: Export) -> list[Said]:
    return [(g.task_id, g.text_hash, g.annotator, g.label, g.reason) for g in export.read()]


def written(path: Path, content: Any, suffix: str = "json") -> Path:
    """A file of text, or of a value as JSON."""
    file = path / f"anna.{suffix}"
    file.write_bytes((content if isinstance(content, str) else json.dumps(content)).encode())
    return file


def choice(said: str, name: str = "answer") -> dict[str, Any]:
    return {
        "value": {"choices": [said]},
        "id": "x1",
        "from_name": name,
        "to_name": "sentence",
        "type": "choices",
    }


def label_studio_task(task_id: str, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    data = {"task_id": task_id, "text_hash": f"hash-{task_id}", "question": "Why?", "sentence": "Because."}
    return {
        "id": 7,
        "data": data,
        "annotations": list(annotations),
        "drafts": [],
        "predictions": [],
        "meta": {},
        **more,
    }


LABEL_STUDIO = [
    label_studio_task(
        "t1",
        {
            "id": 1,
            "completed_by": 5,
            "result": [choice("correct")],
            "was_cancelled": False,
            "updated_at": "2026-01-02T03:04:05.5Z",
        },
        {
            "id": 2,
            "completed_by": {"id": 6, "email": "bo@example.org"},
            "result": [choice("wrong")],
            "was_cancelled": False,
        },
        {"id": 3, "completed_by": 7, "result": [], "was_cancelled": True},
    ),
    label_studio_task(
        "t2",
        {"id": 4, "completed_by": 5, "result": [choice("cannot tell")]},
        {"id": 5, "completed_by": 6, "result": [choice("perhaps")]},
        {"id": 6, "completed_by": 7, "result": [choice("correct", "other")]},
        {
            "id": 7,
            "completed_by": 8,
            "result": [{"value": {"choices": ["correct", "wrong"]}, "from_name": "answer"}],
        },
    ),
    label_studio_task("t3", predictions=[{"result": [choice("correct")], "score": 0.9}]),
]
LABEL_STUDIO_ANSWERS: list[Said] = [
    ("t1", "hash-t1", "5", 1, ""),
    ("t1", "hash-t1", "bo@example.org", 0, ""),
    ("t1", "hash-t1", "7", None, "cancelled"),
    ("t2", "hash-t2", "5", None, "skipped"),
    ("t2", "hash-t2", "6", None, "not_a_label"),
    ("t2", "hash-t2", "7", None, "not_a_label"),
    ("t2", "hash-t2", "8", None, "not_a_label"),
]


def test_label_studio_s_json(tmp_path: Path) -> None:
    export = Export(written(tmp_path, LABEL_STUDIO))
    assert export.form == "label-studio" and said(export) == LABEL_STUDIO_ANSWERS
    assert (export.records, export.unanswered) == (3, 1)  # a model's prediction is no annotation
    assert [g.changed_at for g in export.read()][:2] == [1767323045.5, None]


def test_an_annotation_a_file_and_objects_over_several_lines_are_read(tmp_path: Path) -> None:
    task = LABEL_STUDIO[0]
    annotations = [
        {**annotation, "task": {"id": 7, "data": task["data"]}} for annotation in task["annotations"]
    ]
    for annotation, answer in zip(annotations, LABEL_STUDIO_ANSWERS, strict=False):
        for indent in (None, 2):
            one = Export(written(tmp_path, json.dumps(annotation, indent=indent)))
            assert one.form == "label-studio-annotation" and said(one) == [answer]
    together = "\n".join(json.dumps(annotation, indent=2) for annotation in annotations)
    export = Export(written(tmp_path, together))
    assert said(export) == LABEL_STUDIO_ANSWERS[:3] and export.records == 3


def test_columns_that_a_spreadsheet_leaves_empty_at_the_end_are_no_columns(tmp_path: Path) -> None:
    text = "task_id,text_hash,label,annotator,,\nt1,h1,1,bo,,\n"
    assert said(Export(written(tmp_path, text, "csv"))) == [("t1", "h1", "bo", 1, "")]


def test_label_studio_s_json_min_and_csv_say_the_same(tmp_path: Path) -> None:
    rows = [
        {
            "task_id": "t1",
            "text_hash": "h1",
            "id": 7,
            "answer": "correct",
            "annotator": 5,
            "annotation_id": 1,
        },
        {"task_id": "t2", "text_hash": "h2", "id": 8, "answer": "wrong", "annotator": 5, "annotation_id": 2},
        {"task_id": "t3", "text_hash": "h3", "id": 9, "annotator": 5, "annotation_id": 3},
    ]

    expected = [("t1", "h1", "5", 1, ""), ("t2", "h2", "5", 0, ""), ("t3", "h3", "5", None, "not_a_label")]
    small = Export(written(tmp_path, rows))
    assert small.form == "label-studio-min" and said(small) == expected
    text = "\n".join(
        ["annotation_id,annotator,answer,id,task_id,text_hash", "1,5,correct,7,t1,h1", "2,5,wrong,8,t2,h2"]
    )
    csv = Export(written(tmp_path, text + "\n3,5,,9,t3,h3\n", "csv"))
    assert csv.form == "csv" and said(csv) == expected


NESTED = [
    {
        "id": "t1",
        "fields": {"question": "Why?", "sentence": "Because."},
        "metadata": {"text_hash": "h1"},
        "suggestions": {"answer": {"value": "wrong", "score": 0.9, "agent": "cascade"}},
        "responses": {"answer": [{"value": "correct", "user_id": "u1"}, {"value": "wrong", "user_id": "u2"}]},
        "vectors": {},
        "status": "completed",
        "_server_id": "s1",
    },
    {
        "id": "t2",
        "fields": {},
        "metadata": {"text_hash": "h2"},
        "responses": {},
        "status": "pending",
        "_server_id": "s2",
    },
]


def test_argilla_s_records_nested_as_its_to_json_writes_them(tmp_path: Path) -> None:
    export = Export(written(tmp_path, NESTED))
    assert export.form == "argilla"
    assert said(export) == [("t1", "h1", "u1", 1, ""), ("t1", "h1", "u2", 0, "")] and export.unanswered == 1
    assert not any(g.submitted for g in export.read())  # it leaves the responses' status out


def test_argilla_s_records_flat_tell_drafts_from_responses(tmp_path: Path) -> None:
    flat = [
        {
            "id": "t1",
            "status": "completed",
            "_server_id": "s1",
            "question": "Why?",
            "text_hash": "h1",
            "answer.responses": ["correct", "wrong", None],
            "answer.responses.users": ["u1", "u2", "u3"],
            "answer.responses.status": ["submitted", "draft", "discarded"],
            "answer.suggestion": "wrong",
        },
        {"id": "t2", "status": "pending", "_server_id": "s2", "text_hash": "h2", "answer.responses": None},
    ]

    expected = [
        ("t1", "h1", "u1", 1, ""),
        ("t1", "h1", "u2", None, "skipped"),
        ("t1", "h1", "u3", None, "skipped"),
    ]
    export = Export(written(tmp_path, flat))
    assert export.form == "argilla" and said(export) == expected and all(g.submitted for g in export.read())
    lines = Export(written(tmp_path, "".join(json.dumps(row) + "\n" for row in flat), "jsonl"))
    assert lines.form == "argilla" and said(lines) == expected


def test_argilla_s_records_as_its_server_gives_them(tmp_path: Path) -> None:
    responses = [
        {"values": {"answer": {"value": "correct"}}, "status": "submitted", "user_id": "u1"},
        {"values": None, "status": "discarded", "user_id": "u2"},
    ]
    row = {
        "id": "0a1b",
        "external_id": "t1",
        "fields": {},
        "metadata": {"text_hash": "h1"},
        "responses": responses,
    }

    assert said(Export(written(tmp_path, [row]))) == [
        ("t1", "h1", "u1", 1, ""),
        ("t1", "h1", "u2", None, "skipped"),
    ]


def test_argilla_s_own_library_writes_what_is_read(tmp_path: Path) -> None:
    rg = pytest.importorskip("argilla", reason="runs where argilla is installed: pip install argilla")
    generic = pytest.importorskip(
        "argilla.records._io._generic", reason="runs where argilla is installed: pip install argilla"
    ).GenericIO

    user = "00000000-0000-0000-0000-000000000001"
    record = rg.Record(
        id="t1",
        fields={"sentence": "Because."},
        metadata={"text_hash": "h1"},
        responses=[rg.Response("answer", "correct", user_id=user, status="draft")],
    )
    for flatten, expected in ((False, (1, "")), (True, (None, "skipped"))):
        export = Export(written(tmp_path, generic.to_list([record], flatten=flatten)))
        assert said(export) == [("t1", "h1", user, *expected)]


PRODIGY = [
    {
        "text": "a",
        "options": [],
        "accept": ["correct"],
        "answer": "accept",
        "meta": {"task_id": "t1", "text_hash": "h1"},
    },
    {"task_id": "t2", "text_hash": "h2", "accept": ["wrong"], "answer": "accept", "_annotator_id": "set-bo"},
    {
        "task_id": "t3",
        "accept": ["wrong"],
        "answer": "ignore",
        "_session_id": "set-bo",
        "_timestamp": 1767323045,
    },
    {"task_id": "t4", "accept": [], "answer": "accept"},
    {"task_id": "t5", "accept": ["cannot tell"], "answer": "accept"},
    {"task_id": "t6", "options": [{"id": "correct"}], "answer": "reject"},
    {"task_id": "t7", "answer": "accept"},
    {"task_id": "t8", "answer": "reject"},
    {"task_id": "t9", "options": []},
]
PRODIGY_ANSWERS: list[Said] = [
    ("t1", "h1", "anna", 1, ""),
    ("t2", "h2", "set-bo", 0, ""),
    ("t3", "", "set-bo", None, "skipped"),
    ("t4", "", "anna", None, "not_a_label"),
    ("t5", "", "anna", None, "skipped"),
    ("t6", "", "anna", None, "skipped"),
    ("t7", "", "anna", 1, ""),
    ("t8", "", "anna", 0, ""),
]


def test_prodigy_s_choices_and_its_accept_and_reject(tmp_path: Path) -> None:
    export = Export(written(tmp_path, "\n".join(map(json.dumps, PRODIGY)), "jsonl"))
    assert export.form == "prodigy" and said(export) == PRODIGY_ANSWERS
    assert (export.records, export.unanswered) == (9, 1)
    assert [g.record for g in export.read()] == list(range(1, 9))


@pytest.mark.parametrize("answer", [["correct"], {"accept": 1}, 7])
def test_an_answer_in_another_form_is_no_label(tmp_path: Path, answer: object) -> None:
    row = {"task_id": "t1", "text_hash": "h1", "answer": answer, "_task_hash": 1, "_timestamp": 10**400}
    export = Export(written(tmp_path, json.dumps(row), "jsonl"))
    assert export.form == "prodigy" and said(export)[0][-1] == "not_a_label"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_as_spreadsheets_save_it(tmp_path: Path, delimiter: str, end: str, encoding: str) -> None:
    rows = [
        ["Task_ID", "text_hash", "sentence", "label", "annotator"],
        ["t1", "h1", '"Ja; aber, ""nein""\tö' + end + '"', "Correct ", "bo"],
        ["t2", "h2", "", "0", "'=bo()"],
        ["t3", "h3", "é", "", ""],
        ["", "", "", "", ""],
        ["t4", "h4", "", "TRUE"],  # a spreadsheet may leave out cells that are empty to the end
        ["t5", "h5", "", "cannot tell", "'bo"],
        ["t6", "h6", "", "maybe", "bo"],
    ]

    file = tmp_path / "anna.2.csv"
    file.write_bytes("".join(delimiter.join(row) + end for row in rows).encode(encoding))
    export = Export(file)
    assert said(export) == [
        ("t1", "h1", "bo", 1, ""),
        ("t2", "h2", "=bo()", 0, ""),
        ("t4", "h4", "anna", 1, ""),
        ("t5", "h5", "'bo", None, "skipped"),
        ("t6", "h6", "bo", None, "not_a_label"),
    ]

    assert (export.records, export.unanswered) == (6, 1)


def test_a_line_for_excel_a_long_cell_and_labels_of_pandas_are_read(tmp_path: Path) -> None:
    rows = f"task_id;text_hash;label;passage\nt1;h1;1.0;{'x' * 200_000}\nt2;h2;0.0;\n"
    export = Export(written(tmp_path, "sep=;\n" + rows, "csv"))
    assert said(export) == [("t1", "h1", "anna", 1, ""), ("t2", "h2", "anna", 0, "")]
    assert [label.record for label in export.read()] == [3, 4]
    objects = [{"task_id": "t1", "text_hash": "h1", "label": label} for label in (1.0, 0.0, None)]
    export = Export(written(tmp_path, json.dumps(objects), "json"), "label-studio-min")
    assert [row.label for row in export.read()] == [1, 0] and export.unanswered == 1


def test_a_carriage_return_that_pandas_leaves_without_quotes_ends_no_row(tmp_path: Path) -> None:
    rows = "task_id,text_hash,note,label\nt1,h1,one\rtwo,correct\nt2,h2,\r\r,wrong\n"
    export = Export(written(tmp_path, rows, "csv"))
    assert said(export) == [("t1", "h1", "anna", 1, ""), ("t2", "h2", "anna", 0, "")]
    assert (export.records, export.unanswered) == (2, 0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"PK\x03\x04\x14\x00",
            "anna.csv: this file is no text: it is a spreadsheet or ZIP file; save it as CSV",
        ),
        (b"PAR1\x15\x04", "it is Parquet; save it as CSV"),
        (b"BZh91AY&SY", "it is packed by bzip2; unpack it"),
    ],
)
def test_a_spreadsheet_or_packed_file_is_refused_with_what_it_is(
    tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "anna.csv").write_bytes(content)
    with pytest.raises(JobError, match=says) as e:
        Export(tmp_path / "anna.csv")
    assert e.value.code == BAD_DATA


def test_empty_columns_at_the_end_of_a_table_are_none(tmp_path: Path) -> None:
    file = written(tmp_path, "task_id,text_hash,label,,\nt1,h1,correct,,\n", "csv")
    assert said(Export(file)) == [("t1", "h1", "anna", 1, "")]
    file = written(tmp_path, "task_id,text_hash,label,,\nt1,h1,correct,,wrong\n", "csv")
    with pytest.raises(JobError, match="5 cells where the header has 3"):
        list(Export(file).read())


def test_columns_of_a_csv_may_have_other_names_which_are_given(tmp_path: Path) -> None:
    file = written(tmp_path, "Aufgabe;text_hash;Urteil;Wer\nt1;h1;correct;bo\nt2;h2;wrong;\n", "csv")
    names = {"task_id": "Aufgabe", "label": "urteil", "annotator": "Wer"}
    rows = [("t1", "h1", "bo", 1, ""), ("t2", "h2", "anna", 0, "")]
    assert said(Export(file, columns=Columns(names))) == rows

    usual = written(tmp_path, "task_id,text_hash,label\nt2,h2,wrong\n", "csv")
    assert said(Export(usual, columns=Columns(names))) == [("t2", "h2", "anna", 0, "")]
    with pytest.raises(JobError, match="a table of this kind has no text"):
        Export(usual, columns=Columns({"text": "sentence"}))


@pytest.mark.parametrize(
    ("header", "named", "label"),
    [
        ("label,answer", {}, None),
        ("answer,label", {}, None),
        ("label,answer", {"label": "answer"}, 0),
        ("label,answer", {"label": "Label"}, 1),
        ("label,Urteil", {"label": "Urteil"}, 0),
        ("label,Urteil", {"answer": "Urteil"}, 0),
    ],
)
def test_of_two_columns_that_may_be_the_label_the_user_names_one(
    tmp_path: Path, header: str, named: dict[str, str], label: int | None
) -> None:
    file = written(tmp_path, f"task_id,text_hash,,{header},\nt1,h1,,correct,wrong,\n", "csv")
    if label is None:
        either = r"either may be the label; write --columns label=\w+ or --columns label=\w+"
        with pytest.raises(JobError, match=rf"anna\.csv:1: \w+ and \w+: {either}") as e:
            Export(file)
        assert e.value.code == BAD_DATA
    else:
        assert said(Export(file, columns=Columns(named))) == [("t1", "h1", "anna", label, "")]


def test_a_row_of_json_with_two_labels_is_refused(tmp_path: Path) -> None:
    row = {"task_id": "t1", "label": "", "answer": "correct", "annotator": 5, "annotation_id": 1}
    with pytest.raises(JobError, match=r"record 1: .*label and answer: either may be the label"):
        said(Export(written(tmp_path, [row])))


def test_a_csv_without_a_column_of_labels_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "task_id,text_hash,Urteil\nt1,h1,correct\n", "csv")
    says = r"anna\.csv:2: not what csv writes: no column label, but task_id, text_hash, urteil; if one is it"
    with pytest.raises(JobError, match=says):
        list(Export(file).read())


def test_csv_rows_are_told_by_the_line_on_which_they_begin(tmp_path: Path) -> None:
    file = written(tmp_path, 'task_id,label,sentence\nt1,1,"one\ntwo\nthree"\nt2,0,four\n', "csv")
    assert [g.record for g in Export(file).read()] == [2, 5]


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+1",
        "-1",
        "@A1",
        "\tx",
        "\rx",
        "plain",
        "'quoted",
        "",
        "a=b",
        "0123456789012345",
        "12e4567890123456",
    ],
)
def test_a_cell_is_never_a_formula_and_comes_back_as_it_was(cell: str) -> None:
    assert unquote(quote(cell)) == cell
    assert not quote(cell).startswith(("=", "+", "-", "@", "\t", "\r", "0", "1"))


def long_list(tasks: int = 20) -> list[dict[str, Any]]:
    """Some records longer than what is read at once."""
    annotation = {"completed_by": 1, "result": [choice("correct")]}
    return [
        label_studio_task(f"t{n}", annotation, pad='[{"\\é' * (n % 7) * (CHUNK // 5)) for n in range(tasks)
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_long_list_is_read_record_by_record(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "anna.json"
    file.write_text(
        " \n" + json.dumps(long_list(), indent=indent, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    assert file.stat().st_size > 20 * CHUNK
    export = Export(file)
    positions = [export.file.position for _ in export.read()]
    assert len(positions) == 20 and positions[0] < positions[10] < positions[-1] <= export.file.size
    assert [g.task_id for g in export.read()] == [f"t{n}" for n in range(20)]


def test_memory_holds_one_record_of_a_list_however_many_there_are(tmp_path: Path) -> None:
    peaks = []
    for tasks in (20, 80):
        annotation = {"completed_by": 1, "result": [choice("correct")]}
        export = Export(
            written(tmp_path, [label_studio_task(f"t{n}", annotation, pad="x" * CHUNK) for n in range(tasks)])
        )
        tracemalloc.start()
        assert sum(1 for _ in export.read()) == tasks
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 20 * CHUNK


def test_whole_numbers_and_fractions_of_any_size_are_read(tmp_path: Path) -> None:
    annotation = {"completed_by": 10**30, "result": [choice("correct")], "updated_at": 1767323045.5}
    export = Export(written(tmp_path, [label_studio_task("t1", annotation, lead_time=1e-7)]))
    assert [(g.annotator, g.changed_at) for g in export.read()] == [("1" + "0" * 30, 1767323045.5)]


SOURCES = {
    "label-studio.json": json.dumps(LABEL_STUDIO, ensure_ascii=False),
    "argilla.json": json.dumps(NESTED, indent=1),
    "prodigy.jsonl": "".join(json.dumps(row) + "\n" for row in PRODIGY),
}


@pytest.mark.parametrize("name", SOURCES)
def test_json_that_was_cut_anywhere_is_an_error_or_ends_with_a_whole_line(tmp_path: Path, name: str) -> None:
    text = SOURCES[name]
    whole = {0, len(text)} if name.endswith(".json") else {n + 1 for n, c in enumerate(text) if c == "\n"}
    whole |= {n - 1 for n in whole} if name.endswith(".jsonl") else set()
    refused = 0

    for end in range(1, len(text), 3 if name.endswith(".json") else 1):
        file = tmp_path / name
        file.write_text(text[:end], encoding="utf-8")
        try:
            labels = list(Export(file).read())
        except JobError as e:
            assert e.code == BAD_DATA and str(file) in str(e) and "export it again" in str(e)
            refused += 1
        else:
            assert end in whole and labels

    assert refused > len(text) / 4


def test_an_error_tells_the_place(tmp_path: Path) -> None:
    text = SOURCES["prodigy.jsonl"]
    lines = text.splitlines(keepends=True)
    cases = {
        "anna.jsonl:3: no whole JSON object; is the file cut off here?": "".join(lines[:2]) + lines[2][:20],
        "anna.jsonl: record 2: before character 1,200: ": json.dumps(LABEL_STUDIO)[:1200],
        "anna.jsonl:2: the file ends after 2 of 3 cells": "task_id,label,annotator\nt1,corr",
        "anna.jsonl:3: this row has no end": 'task_id,label,annotator\nt1,1,bo\nt2,0,"b\nt3,1,bo\n',
        "anna.jsonl:2: 4 cells where the header has 3": "task_id,label,annotator\nt1,1,bo,x\n",
        "anna.jsonl:1: no column task_id in the header": "id,label\nt1,1\n",
        "anna.jsonl:1: the column 'label' comes twice": "task_id,label,label\nt1,1,0\n",
        "anna.jsonl:1: no export that is known: it has a": '{"a": 1}\n',
        "anna.jsonl: no record in it": "[]",
        "anna.jsonl: record 1: not a JSON object: 3": "[3]",
        "record 1: not what label-studio writes: 'annotations' is 'x', not a list": '[{"data": {}, '
        '"annotations": "x"}]',
        "anna.jsonl: record 2: before character 33: ": '[{"data": {"a": 1}} {"data": {}}]',
        "anna.jsonl: record 2: before character 22: ": '[{"data": {"a": 1}}] x',
        "anna.jsonl: record 1: before character 15: ": '[{"data": NaN}]',
        "NaN is no value of JSON: write null in its place": '[{"data": {"score": NaN}}]',
        "anna.jsonl: record 1: before character 21: ": '{\n "data": {\n  "a": 1',
    }

    for expected, content in cases.items():
        with pytest.raises(JobError) as e:
            list(Export(written(tmp_path, content, "jsonl")).read())
        assert e.value.code == BAD_DATA and expected in str(e.value), content


def test_gzip_and_text_that_break_off_are_errors_with_the_place(tmp_path: Path) -> None:
    packed = tmp_path / "anna.jsonl.gz"
    packed.write_bytes(gzip.compress(SOURCES["prodigy.jsonl"].encode()))
    assert said(Export(packed)) == PRODIGY_ANSWERS
    packed.write_bytes(gzip.compress(json.dumps(long_list(3)).encode())[:-9])
    with pytest.raises(JobError, match=r"record \d: the gzip breaks off here"):
        list(Export(packed).read())
    file = written(tmp_path, "", "csv")
    file.write_bytes("task_id,label,annotator\nt1,1,bo\nt2,0,Jürgen\n".encode("cp1252"))
    with pytest.raises(JobError, match=r"it is not UTF-8.*CSV UTF-8"):
        list(Export(file).read())


def test_what_is_no_file_or_no_form_is_refused(tmp_path: Path) -> None:
    for path, form, code in (
        (tmp_path / "none", None, INPUT_MISSING),
        (tmp_path, None, INPUT_MISSING),
        (tmp_path, "x", USAGE),
    ):
        with pytest.raises(JobError) as e:
            Export(path, form)
        assert e.value.code == code

    assert said(Export(written(tmp_path, [{"task_id": "t1", "answer": "reject"}]), "label-studio-min"))[0][
        3:
    ] == (
        None,
        "not_a_label",
    )
    tools = {"argilla", "prodigy", "csv"}
    label_studio = {"label-studio", "label-studio-annotation", "label-studio-min"}
    assert set(export_forms()) == label_studio | tools


def test_half_a_surrogate_pair_is_refused_with_its_line(tmp_path: Path) -> None:
    whole = json.dumps(label_studio_task("t1"))
    file = written(tmp_path, whole + "\n" + whole.replace("Because", "\\udfff") + "\n", "jsonl")
    with pytest.raises(JobError, match=r"anna.jsonl:2: half a surrogate pair, \\udfff") as e:
        list(Export(file, "label-studio").read())
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    "content", ["[" * 200_000, '[{"a":' * 60 + "1" + "}]" * 60], ids=["never closed", "120 levels"]
)
def test_a_list_that_is_nested_too_deeply_is_refused_with_its_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "deep.json").write_text(content)
    with pytest.raises(JobError, match=r"deep.json: record 1: lists or objects 100 deep") as e:
        Export(tmp_path / "deep.json")
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    "number",
    [
        "1e999999999999999999999",
        "-1e-9999999999999999999999",
        pytest.param("1" * 4_301, id="4,301 digits"),
        pytest.param("-" + "1" * 2 * CHUNK, id="more digits than are read at once"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 2 * CHUNK])
def test_a_number_that_nothing_can_hold_is_refused_with_its_record(
    tmp_path: Path, number: str, before: int
) -> None:
    first = json.dumps({"task_id": "t0", "annotation_id": 1, "label": "wrong", "passage": "x" * before}) + ","
    second = f'{{"task_id": "t1", "annotation_id": {number}, "label": "wrong"}}'
    file = written(tmp_path, f"[{first if before else ''} {second}]")
    record = 2 if before else 1
    says = rf"anna\.json: record {record}: a number that is too long to be read"
    with pytest.raises(JobError, match=says) as e:
        list(Export(file).read())
    assert e.value.code == BAD_DATA


def test_a_text_of_many_digits_is_no_number(tmp_path: Path) -> None:
    row = {"task_id": "t1", "annotation_id": "1", "label": "wrong", "passage": "31415 " + "9" * 2 * CHUNK}
    assert [label.label for label in Export(written(tmp_path, [row])).read()] == [0]


def test_a_record_that_only_another_tool_writes_is_refused(tmp_path: Path) -> None:
    studio = label_studio_task("t1", {"id": 1, "completed_by": 1, "result": [choice("wrong")]})
    argilla = {"id": "t2", "fields": {}, "responses": {"answer": [{"value": "correct", "user_id": "u1"}]}}
    for records, form, other, expected in (
        ([studio, argilla], None, "argilla", "label-studio"),
        ([argilla, studio], None, "label-studio", "argilla"),
        ([studio], "prodigy", "label-studio", "prodigy"),
    ):
        with pytest.raises(JobError, match=f"record {len(records)}: {other} writes .*, not {expected};"):
            said(Export(written(tmp_path, records), form))
