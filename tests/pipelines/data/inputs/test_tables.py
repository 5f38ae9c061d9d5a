from __future__ import annotations

import bz2
import gzip
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.data.inputs.tables import (
    read_answers,
    read_given_questions,
    read_questions,
    read_splits,
)
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, USAGE, JobError
from answermill.schemas.corpus import Question

TWO = [Question("7", "Who?"), Question("8", 'Why "so"?')]


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def labels_of(path):
    return [row for batch in label_batches(path) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'question_id\ttext\n7\tWho?\n8\tWhy "so"?\n'),
        ("b.tsv", '7\tWho?\n8\tWhy "so"?\n'),
        ("c.jsonl", '{"_id": "7", "text": "Who?"}\n\n{"_id": "8", "text": "Why \\"so\\"?"}\n'),
        (
            "d.jsonl",
            '{"question_id": 7, "question": "Who?"}\n{"question_id": 8, "question": "Why \\"so\\"?"}\n',
        ),
    ],
)
def test_questions_are_read_from_tsv_and_jsonl(tmp_path, name, text):
    assert read_questions(put(tmp_path / name, text)) == TWO


def test_questions_are_read_from_gzip_and_parquet(tmp_path):
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"id": q.question_id, "text": q.text}) + "\n" for q in TWO)
    pq.write_table(
        pa.table({"question_id": ["7", "8"], "question": [q.text for q in TWO]}), tmp_path / "q.parquet"
    )
    assert read_questions(tmp_path / "q.jsonl.gz") == read_questions(tmp_path / "q.parquet") == TWO


def test_questions_without_ids_are_numbered(tmp_path):
    assert read_questions(put(tmp_path / "q.jsonl", '{"question": "Who?"}\n{"question": "Why?"}\n'))[
        1
    ] == Question("2", "Why?")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.tsv", "question_id\ttext\n1\tWho?\n1\tWhy?\n", r"q.tsv:3: question id '1' is in line 2 already"),
        ("q.tsv", "question_id\ttext\n1\t \n", r"q.tsv:2: no question"),
        ("q.tsv", "question_id\ttext\n1\tWho?\tWhy?\n", r"q.tsv:2: 3 cells where the header has 2"),
        (
            "q.tsv",
            "Who?\n",
            r"q.tsv:1: no header line; for a text a line write `text` as the first line, or without one it "
            r"must have the columns question_id, text",
        ),
        ("q.jsonl", '{"text": "Who?"}\n{"text": \n', r"q.jsonl:2: not JSON"),
        ("q.jsonl", "[1]\n", r"q.jsonl:1: not a JSON object: \[1\]"),
        ("q.jsonl", "", "no question in it"),
        ("q.xlsx", "a,b", r"ends in .xlsx; .tsv, .csv, .jsonl and .parquet can be read"),
        (
            "q.csv",
            "question_id,text\n1,Who, and why?\n",
            "q.csv:2: 3 cells .* with a comma must be in quotes",
        ),
        ("q.csv", 'id,text\n1,"Who\nwas it?"\n2,"Why\n', r"q.csv:4: this row has no end, or its quotes"),
        ("q.csv", 'id,text\n1,Who?\n2,"Why" so?\n', r"q.csv:3: this row .* put the whole cell in quotes"),
        ("q.csv", "Who?\n", "q.csv:1: no header .* question_id, text, between commas"),
        ("q.jsonl.gz", "text", r"q.jsonl.gz:1: not JSON"),
        ("q.parquet", "text", "not readable as Parquet"),
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


def json_lines(*values):
    """A file of questions, the first of which is in order."""
    return '{"question_id": "1", "text": "Who?"}\n' + "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json_lines({"text": ["a", "b"]}), "q.jsonl:2: no question: \"['a', 'b']\" is a list; give text"),
        (json_lines({"text": {"x": 1}}), "is an object"),
        (json_lines({"text": 7}), "q.jsonl:2: no question: '7' is a number"),
        (json_lines({"text": True}), "is true or false"),
        (
            json_lines({"id": [1], "text": "Why?"}),
            "q.jsonl:2: question id '[1]' is a list; give text or a whole number",
        ),
        (json_lines({"id": {}, "text": "Why?"}), "is an object"),
        (json_lines({"id": False, "text": "Why?"}), "is true or false"),
        (json_lines({"id": 1.5, "text": "Why?"}), "is a number; give text or a whole number"),
        (
            json_lines({"id": "a\0", "text": "Why?"}),
            "q.jsonl:2: question id 'a\\x00' is empty, or holds characters not seen",
        ),
        (json_lines({"id": " ", "text": "Why?"}), "is empty"),
        (
            json_lines({"text": "\u200b\u2060 \0\t\u202e"}),
            "q.jsonl:2: no question: the cell has nothing but white space",
        ),
        (json_lines({"text": "a" * 131_073}), "q.jsonl:2: question of 131,073 characters; at most 131,072"),
        (json_lines({"text": "\ud800?"}), "q.jsonl:2: half a surrogate pair, \\ud800"),
        (json_lines({"id": "x\udfff", "text": "Why?"}), "half a surrogate pair"),
        (json_lines() + "[" * 200_000, "q.jsonl:2: brackets in brackets, too deep"),
        (json_lines() + '{"id": 1' + "0" * 5_000 + "}", "q.jsonl:2: not JSON that can be read"),
        (json_lines({"id": "1", "text": "Why?"}), "q.jsonl:2: question id '1' is in line 1 already"),
    ],
)
def test_questions_of_another_kind_are_refused_with_their_line(tmp_path, text, says):
    with pytest.raises(JobError) as e:
        read_questions(put(tmp_path / "q.jsonl", text))
    assert says in str(e.value) and e.value.code == BAD_DATA


def test_a_cell_that_is_too_long_is_refused_in_a_table_too(tmp_path):
    with pytest.raises(JobError, match=r"q.tsv:2: question of 200,000 characters") as e:
        read_questions(put(tmp_path / "q.tsv", f"question_id\ttext\n1\t{'a' * 200_000}\n"))
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize("name", ["q.tsv", "q.jsonl"])
def test_a_byte_order_mark_changes_nothing(tmp_path, name):
    table = 'question_id\ttext\n7\tWho?\n8\tWhy "so"?\n'
    rows = "".join(json.dumps({"question_id": q.question_id, "text": q.text}) + "\n" for q in TWO)
    put(tmp_path / name, "\ufeff" + (table if name == "q.tsv" else rows))
    assert read_questions(tmp_path / name) == TWO
    labels = put(tmp_path / "l.tsv", "\ufeffquestion_id\tsentence\tlabel\nq1\tSo.\t1\n")
    assert [row["question_id"] for row in labels_of(labels)] == ["q1"]
    assert read_splits(put(tmp_path / "s.tsv", "\ufeff7\ttest\n")) == {"7": "test"}


def test_what_is_not_seen_leaves_a_question_and_ordinary_questions_stay_as_they_are(tmp_path):
    texts = [
        "W\u202eho\0 wr\u2066ote\u2028it\x1b?",
        "Who wrote “Émile” in 1762, and why?",
        "…?",
        "\u0645\u06cc\u200c\u0631\u0648\u062f?",
    ]
    questions = read_questions(
        put(tmp_path / "q.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    )
    assert [q.text for q in questions] == ["Who wrote it?", *texts[1:]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            '{"id": 1, "text": "Was ist Käse?"}\n{"id": 2, "text": "Käse?"}'.encode("latin-1"),
            ":1: byte 29 of the line is not UTF-8",
        ),
        (gzip.compress(b'{"text": "Who?"}\n' * 50, mtime=0)[:-12], ": broken gzip: Compressed file ended"),
        (gzip.compress(b"{}", mtime=0)[:12] + b"\xff" * 9, ":1: broken gzip: "),
        (gzip.compress(b'{"text": "Who?", "id": "1"}\n', mtime=0)[:-8] + bytes(8), ":2: broken gzip: "),
    ],
)
def test_damaged_files_are_refused_with_the_line(tmp_path, content, says):
    (tmp_path / "q.jsonl").write_bytes(content)
    (tmp_path / "q.jsonl.gz").write_bytes(content)
    for read in (read_questions, labels_of, read_splits):
        for name in ("q.jsonl", "q.jsonl.gz"):
            with pytest.raises(JobError) as e:
                read(tmp_path / name)
            assert str(e.value).startswith(f"{tmp_path / name}:") and e.value.code == BAD_DATA
            assert read is not read_questions or says in str(e.value)


def two_groups(path, compression):
    """A file of questions that is one of labels too, in two row groups of 100 rows."""
    texts = [f"Sentence {n:03}." for n in range(200)]
    table = pa.table({"question_id": [f"q{n:03}" for n in range(200)], "text": texts, "label": ["1"] * 200})
    pq.write_table(table, path, row_group_size=100, compression=compression, use_dictionary=False)
    return path


@pytest.mark.parametrize("read", [read_questions, labels_of], ids=["questions", "labels"])
def test_a_damaged_parquet_file_is_named_with_its_row_or_row_group(tmp_path, read):
    path = two_groups(tmp_path / "t.parquet", "none")
    path.write_bytes(path.read_bytes().replace(b"Sentence 150.", b"Sentence \xff50."))
    with pytest.raises(JobError, match=r"t.parquet:151: text is not UTF-8, or damaged") as e:
        read(path)
    assert e.value.code == BAD_DATA
    two_groups(path, "snappy")
    place = pq.ParquetFile(path).metadata.row_group(1).column(1)
    content = bytearray(path.read_bytes())
    middle = place.data_page_offset + place.total_compressed_size // 2
    content[middle : middle + 40] = b"\xff" * 40

    path.write_bytes(content)
    with pytest.raises(JobError, match=r"t.parquet:101: row group 2 of 2 is damaged from this row on: ") as e:
        read(path)
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.float64(), pa.bool_(), pa.binary(1), pa.timestamp("s")]
)
def test_parquet_columns_of_another_type_are_refused(tmp_path, kind):
    value = {"list": ["a"], "double": 1.5, "bool": True, "fixed_size_binary[1]": b"a"}.get(
        str(kind).partition("<")[0], 9 * 10**15
    )
    values = (
        pa.array([None, value], pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind)
        else pa.array([None, value], kind)
    )
    pq.write_table(
        pa.table({"id": ["1", "2"], "question_id": values, "text": ["Who?", "Why?"]}), tmp_path / "q.parquet"
    )

    pq.write_table(
        pa.table({"question_id": ["1", "2"], "text": values, "label": ["1", "0"]}), tmp_path / "l.parquet"
    )
    with pytest.raises(JobError) as e:
        read_questions(tmp_path / "q.parquet")
    assert str(e.value).startswith(str(tmp_path / "q.parquet")) and e.value.code == BAD_DATA
    with pytest.raises(JobError, match=r"l.parquet: the column text holds .*; give text") as e:
        labels_of(tmp_path / "l.parquet")
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_texts_of_parquet_are_the_same_in_each_type_that_writers_give_them(tmp_path, kind):
    texts = pa.array(["Who?", 'Why "so"?'])
    texts = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    ids, labels = pa.array([7.0, 8.0]), pa.array(["1", "0"])
    pq.write_table(pa.table({"id": ids, "text": texts}), tmp_path / "q.parquet")
    assert read_questions(tmp_path / "q.parquet") == TWO
    pq.write_table(pa.table({"question_id": ids, "text": texts, "label": labels}), tmp_path / "l.parquet")
    rows = [(row["question_id"], row["text"]) for row in labels_of(tmp_path / "l.parquet")]
    assert rows == [(question.question_id, question.text) for question in TWO]


def test_bytes_that_are_no_text_and_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "q.parquet"
    pq.write_table(pa.table({"id": ["7", "8"], "text": pa.array([b"Who?", b"\xff"])}), path)
    with pytest.raises(JobError, match=r"q.parquet:2: text is not UTF-8"):
        read_questions(path)
    pq.write_table(pa.table([["7"], ["Who?"], ["Why?"]], names=["id", "text", "text"]), path)
    with pytest.raises(JobError, match=r"q.parquet: two columns have the name 'text'"):
        read_questions(path)


def test_a_whole_number_is_the_same_id_however_it_is_stored(tmp_path):
    text = "".join(f'{{"id": {n}, "text": "Who?"}}\n' for n in ("7.0", "1e5", str(10**18 + 1), '"007"'))
    ids = [question.question_id for question in read_questions(put(tmp_path / "q.jsonl", text))]
    assert ids == ["7", "100000", "1000000000000000001", "007"]
    for wrong in ("7.5", "1e300", "NaN"):
        with pytest.raises(JobError, match="is a number; give text or a whole number"):
            read_questions(put(tmp_path / "q.jsonl", f'{{"id": {wrong}, "text": "Who?"}}\n'))


LABELS = [
    {"number": 2, "question_id": "q1", "sentence_id": "d@0", "text": None, "label": 1},
    {"number": 3, "question_id": "q1", "sentence_id": None, "text": "It is so.", "label": 0},
    {"number": 4, "question_id": "2", "sentence_id": "d@9", "text": "So.", "label": 1},
]


def test_labels_name_their_sentence_by_id_by_text_or_by_both(tmp_path):
    tabs = "question_id\tsentence_id\tsentence\tlabel\nq1\td@0\t\t1\nq1\t\tIt is so.\t0\n2\td@9\tSo.\t1\n"
    assert labels_of(put(tmp_path / "l.tsv", tabs)) == LABELS
    lines = [
        {("sentence" if k == "text" else k): v for k, v in row.items() if k != "number"} for row in LABELS
    ]
    lines[2]["question_id"] = 2
    put(tmp_path / "l.jsonl", "\n" + "".join(json.dumps(line) + "\n" for line in lines))
    assert labels_of(tmp_path / "l.jsonl") == LABELS


def test_labels_may_be_written_as_pandas_and_r_write_them(tmp_path):
    written = ["1.0", "0.0", "True", "FALSE", " 1", "0"]
    text = "question_id\tsentence_id\tlabel\n" + "".join(f"q\td@{n}\t{x}\n" for n, x in enumerate(written))
    assert [row["label"] for row in labels_of(put(tmp_path / "l.tsv", text))] == [1, 0, 1, 0, 1, 0]
    for labels in (
        pa.array([1.0, 0.0]),
        pa.array([True, False]),
        pa.array(["1", "0"]).cast(pa.decimal128(3, 1)),
    ):
        table = pa.table({"question_id": ["q", "q"], "sentence_id": ["d@0", "d@1"], "label": labels})
        pq.write_table(table, tmp_path / "l.parquet")
        assert [row["label"] for row in labels_of(tmp_path / "l.parquet")] == [1, 0]


def test_labels_are_read_from_parquet_with_rows_from_1(tmp_path):
    table = pa.table(
        {name: [row[name] for row in LABELS] for name in ("question_id", "sentence_id", "text", "label")}
    )
    pq.write_table(table.append_column("note", pa.array(["", "", ""])), tmp_path / "l.parquet")
    assert labels_of(tmp_path / "l.parquet") == [{**row, "number": n} for n, row in enumerate(LABELS, 1)]
    pq.write_table(
        pa.table({"question_id": ["q", "q"], "sentence": ["a", ""], "label": ["1", "1"]}),
        tmp_path / "l.parquet",
    )

    with pytest.raises(
        JobError, match=r"l.parquet:2: needs question_id, .*; it has question_id, sentence, label"
    ):
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
        ("q\td@0\t1\n", r":1: no header line; write one first, such as question_id, sentence_id, sentence"),
        ("nr\tsentence\tlabel\n7\tA.\t1\n", r":2: needs question_id.*; it has nr, sentence, label. If one"),
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
        (
            "7\ttest\n8\tvalid\n",
            ":2: split 'valid' of question '8'; give train, dev, test",
        ),
        ("7\ttest\n7\tdev\n", ":2: question id '7' is in test already, dev here"),
        ("7\n", ":1: no header line; without one it must have the columns question_id, split"),
        ("", ": no question in it"),
    ],
)
def test_bad_splits_are_refused_with_their_line(tmp_path, text, says):
    with pytest.raises(JobError) as e:
        read_splits(put(tmp_path / "splits.tsv", text))
    assert says in str(e.value) and e.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (
            "Topic-ID\ttitle",
            "q.tsv:2: no column text; it has Topic-ID, title. If one of these holds it, write",
        ),
        ("nr\ttext", "q.tsv:2: no column question_id; it has nr, text. If one of these holds it, write"),
        (
            "nr\tfrage",
            "q.tsv:1: a header line with unknown columns, it seems; it has nr, frage. If one of these",
        ),
    ],
)
def test_a_header_of_others_is_no_question_and_its_first_column_no_made_up_id(tmp_path, header, says):
    with pytest.raises(JobError) as e:
        read_questions(put(tmp_path / "q.tsv", f"{header}\n7\tWho wrote it?\n"))
    assert says in str(e.value) and e.value.code == BAD_DATA


HEADERS = ("qid query", "query-id text", "QuestionID Question", "_id text", "idx question", "topic query")


@pytest.mark.parametrize("header", [*HEADERS, "question id,question text"])
def test_the_names_that_other_tools_give_to_ids_and_texts_are_known(tmp_path, header):
    names = header.split("," if "," in header else " ")
    table = "\t".join(names) + '\n7\tWho?\n8\tWhy "so"?\n'
    assert read_questions(put(tmp_path / "q.tsv", table)) == TWO
    objects = [dict(zip(names, (q.question_id, q.text), strict=True)) for q in TWO]
    put(tmp_path / "q.jsonl", "".join(json.dumps(row) + "\n" for row in objects))
    pq.write_table(pa.Table.from_pylist(objects), tmp_path / "q.parquet")
    assert read_questions(tmp_path / "q.jsonl") == read_questions(tmp_path / "q.parquet") == TWO


def test_ids_are_line_numbers_only_where_the_text_is_the_only_column(tmp_path):
    rows = read_given_questions(put(tmp_path / "q.tsv", "text\nWho?\nWhy?\n"))
    assert [(row.question.question_id, row.is_numbered) for row in rows] == [("2", True), ("3", True)]
    pq.write_table(pa.table({"question": ["Who?"], "answer": ["I"]}), tmp_path / "q.parquet")
    put(tmp_path / "q.jsonl", '{"question": "Who?", "answer": "I"}\n')
    for name in ("q.parquet", "q.jsonl"):
        with pytest.raises(
            JobError, match=r"no column question_id; it has question, answer.*the texts alone"
        ):
            read_questions(tmp_path / name)
    with pytest.raises(JobError, match=r":2: a row with an id, unlike those before it"):
        read_questions(put(tmp_path / "q.jsonl", '{"text": "Who?"}\n{"text": "Why?", "id": 7}\n'))
    with pytest.raises(JobError, match=r":3: no question_id: the cell is empty"):
        read_questions(put(tmp_path / "q.tsv", "question_id\ttext\n1\tWho?\n\tWhy?\n"))


def test_the_user_names_columns_and_a_name_that_the_table_lacks_is_refused(tmp_path):
    columns = Columns.of(["question_id=nr", "text=frage"], "retrieve.columns")
    tsv = put(tmp_path / "q.tsv", 'frage\ttext\tnr\nWho?\tx\t7\nWhy "so"?\ty\t8\n')
    assert [row.question for row in read_given_questions(tsv, columns)] == TWO
    put(tmp_path / "q.tsv", "nr\ttext\tfarge\n7\tx\tWho?\n")
    with pytest.raises(JobError, match="no column 'frage', which is to be text; it has nr, text, farge") as e:
        read_given_questions(tsv, columns)
    assert str(e.value).endswith('write retrieve.columns = ["text=NAME"]')


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("question_id", "write NAME=COLUMN"),
        ("frage=text", "no table has 'frage'; known: annotator, answer, candidate_id"),
    ],
)
def test_names_of_columns_that_no_table_has_are_refused(written, says):
    for key, code in (("--columns", USAGE), ("retrieve.columns", SETTINGS)):
        with pytest.raises(JobError, match=says) as e:
            Columns.of([written], key)
        assert e.value.code == code and str(e.value).startswith(key)


def test_cells_in_the_quotes_of_csv_are_read_without_them_or_refused_with_their_line(tmp_path):
    minimal = 'question_id\ttext\n7\tWho?\n8\t"Why ""so""?"\n'
    every = '"question_id"\t"text"\n"7"\t"Who?"\n"8"\t"Why ""so""?"\n'
    for text in (minimal, every):
        assert read_questions(put(tmp_path / "q.tsv", text)) == TWO
    with pytest.raises(
        JobError, match=r"q.tsv:2: this table has its cells in quotes, and those of this line"
    ):
        read_questions(put(tmp_path / "q.tsv", '"question_id"\t"text"\n"7"\t"Who\nwrote it?"\n'))
    quoted = read_questions(put(tmp_path / "q.tsv", 'question_id\ttext\n7\t"To be or not"\n'))
    assert quoted == [Question("7", '"To be or not"')]
    (tmp_path / "q.tsv").write_bytes(
        b'question_id\ttext\n7\t"Who\rwas it?"\n'
    )  # as Python and Polars write \r
    assert read_questions(tmp_path / "q.tsv") == [Question("7", "Who was it?")]


@pytest.mark.parametrize(
    "text",
    [
        'question_id,text\n7,Who?\n8,"Why ""so""?"\n',
        '\ufeff"id";"text";""\r\n"7";"Who?";\r\n;;\r\n"8";"Why\r\n""so""?";\r\n',
        'text,id\nWho?,7\n"Why\t""so""?",8',
        '7,Who?\n8,"Why ""so""?"\n',
        'id;text;"notes, if any"\n7;Who?;\n8;"Why ""so""?";a\n',
        'sep=;\r\nid;text\r\n7;Who?\r\n8;"Why ""so""?"\r\n',
        'id\ttext\n7\tWho?\n8\t"Why ""so""?"\n',
    ],
)
def test_a_csv_is_read_with_its_quotes_by_comma_or_semicolon(tmp_path, text):
    (tmp_path / "q.csv").write_bytes(text.encode())
    assert read_questions(tmp_path / "q.csv") == TWO
    with gzip.open(tmp_path / "q.csv.gz", "wb") as file:
        file.write(text.encode())
    assert read_questions(tmp_path / "q.csv.gz") == TWO


def test_what_is_first_between_cells_is_between_all_of_them(tmp_path):
    rows = read_given_questions(put(tmp_path / "q.csv", "q1;What is this, a test?\nq2;Who?\n"))
    assert [row.question for row in rows] == [Question("q1", "What is this, a test?"), Question("q2", "Who?")]
    rows = read_given_questions(put(tmp_path / "q.csv", "sep=;\nid;text\nq1;Who?\n"))
    assert [row.number for row in rows] == [3]


def test_a_long_cell_of_a_column_that_is_not_read_is_no_reason_to_refuse_a_row(tmp_path):
    page = "x" * 200_000
    rows = read_questions(put(tmp_path / "q.csv", f"id,text,page\n7,Who?,{page}\n"))
    assert rows == [Question("7", "Who?")]
    quoted = f'"id"\t"text"\t"page"\n"7"\t"Who?"\t"{page}"\n'
    assert read_questions(put(tmp_path / "q.tsv", quoted)) == rows


def test_cells_that_duckdb_polars_and_databases_write_as_empty_are_empty(tmp_path):
    for empty in ('""', r"\N"):
        with pytest.raises(JobError, match=r"q.tsv:2: no text: the cell is empty"):
            read_questions(put(tmp_path / "q.tsv", f"question_id\ttext\n7\t{empty}\n"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("q.csv", b"PK\x03\x04\x14\x00", r"no text: it is a spreadsheet or ZIP file; save it as CSV UTF-8"),
        ("q.tsv", b"PAR1\x15\x04", r"it is Parquet; save it as CSV, or name it .parquet"),
        ("q.tsv", bz2.compress(b"id\ttext\n7\tWho?\n"), r"packed by bzip2; unpack it, or pack it with gzip"),
        ("q.jsonl", lzma.compress(b'{"id": 7, "text": "Who?"}\n'), r"packed by xz; unpack it"),
        ("q.csv", "id,text\n7,Who?\n".encode("utf-16"), r"q.csv:1: this file is UTF-16; save it as UTF-8"),
        ("q.csv", b"id,text\r7,Who?\r", r"q.csv:1: the lines of this file end in \\r alone, as on old Macs"),
        ("q.tsv", b"id\ttext\r7\tWho?", r"q.tsv:1: the lines of this file end in \\r alone"),
        ("q.csv", b"id,text\n7,Who\rwas?\n", r"q.csv:2: this row has a \\r outside quotes; put the whole"),
        (
            "q.tsv",
            b'id\ttext\n7\t"Who\twas?"\n',
            r":2: 3 cells .* a cell may hold neither a tab nor a line end",
        ),
    ],
)
def test_a_file_that_is_no_table_of_text_is_refused_with_what_it_is(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(JobError, match=says) as e:
        read_questions(tmp_path / name)
    assert e.value.code == BAD_DATA


def test_columns_of_a_csv_may_be_named_and_a_row_is_known_by_the_line_in_which_it_begins(tmp_path):
    text = 'nr,frage\n7,"Who\nwas\nit?"\n8,"Why, and when?"\n'
    rows = read_given_questions(
        put(tmp_path / "q.csv", text), Columns({"question_id": "nr", "text": "frage"})
    )
    assert [(row.number, row.question.text) for row in rows] == [(2, "Who was it?"), (5, "Why, and when?")]


def test_empty_columns_and_rows_at_a_spreadsheets_end_are_left_out(tmp_path):
    text = 'question_id\ttext\t\t\n7\tWho?\t\t\n8\tWhy "so"?\t\t\n\t\t\t\n'
    assert read_questions(put(tmp_path / "q.tsv", text)) == TWO
    with pytest.raises(JobError, match=r":1: the column 'text' comes twice in the header"):
        read_questions(put(tmp_path / "q.tsv", "question_id\ttext\ttext\n7\tWho?\tx\n"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{\n "id": 7,\n "text": "Who?"\n}\n',
            "q.jsonl:1: not JSON: .* write it on one, e.g. with `jq -c . q",
        ),
        ('[\n{"id": 7, "text": "Who?"}]\n', "q.jsonl:1: not JSON: .* write each of its objects on a line"),
        ('[{"id": 7, "text": "Who?"}]\n', "q.jsonl:1: not a JSON object: .* write each of its objects"),
    ],
)
def test_json_that_is_not_an_object_a_line_is_refused_with_the_way_to_make_it_so(tmp_path, text, says):
    with pytest.raises(JobError, match=says):
        read_questions(put(tmp_path / "q.jsonl", text))


def test_a_cell_of_answers_may_be_a_list(tmp_path):
    rows = '7\t["Paris", "the city of Paris"]\n8\tRome\n9\t[sic] it was\n'
    assert read_answers(put(tmp_path / "a.tsv", f"question_id\tanswers\n{rows}")) == {
        "7": ["Paris", "the city of Paris"],
        "8": ["Rome"],
        "9": ["[sic] it was"],
    }
