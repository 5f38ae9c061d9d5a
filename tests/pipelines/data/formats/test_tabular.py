from __future__ import annotations

import gzip
import tracemalloc
from collections import Counter
from itertools import groupby

import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.formats.format import TableForm
from answermill.pipelines.data.formats.tabular import WIKIQA_COLUMNS, listed
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.schemas.labels import LabelledCandidate

HEADER = "\t".join(WIKIQA_COLUMNS) + "\n"
WIKI = HEADER + (
    'Q1\thow "so"?\tD1\tGlacier cave\tD1-0\tHe said "no.\t0\nQ1\thow "so"?\tD1\tGlacier cave\tD1-1\tA cave '
    ".\t1\n"
    "Q8\twho?\tD8\tIce\tD8-0\t\t0\n"
)
ASNQ = "who is a\tOne two.\t3\nwho is a\tThree four.\t4\nwhat is b\tFive six.\t1\nwho is c\tSeven.\t2\n"


def put(path, text):
    path.write_bytes(text.encode())
    return path


def test_wikiqa_keeps_its_ids_its_order_its_quotes_and_its_empty_candidates(tmp_path):
    assert list(read_dataset(put(tmp_path / "w.tsv", WIKI))) == [
        LabelledCandidate("Q1", 'how "so"?', "D1-0", "D1", "Glacier cave", 0, 'He said "no.', 0),
        LabelledCandidate("Q1", 'how "so"?', "D1-1", "D1", "Glacier cave", 1, "A cave .", 1),
        LabelledCandidate("Q8", "who?", "D8-0", "D8", "Ice", 0, "", 0),
    ]


def test_gzip_crlf_and_a_byte_order_mark_change_nothing(tmp_path):
    plain = list(read_dataset(put(tmp_path / "w.tsv", WIKI)))
    (tmp_path / "w.tsv.gz").write_bytes(gzip.compress(("\ufeff" + WIKI.replace("\n", "\r\n")).encode()))
    assert list(read_dataset(tmp_path / "w.tsv.gz")) == plain


def test_only_a_line_feed_ends_a_row(tmp_path):
    odd = "a\rb\u2028c\x0bd\x85e"
    assert [
        c.text
        for c in read_dataset(put(tmp_path / "t.tsv", f"who is it\t{odd}\t0\nwho is it\tb\t1\n"), "tsv")
    ] == [
        odd,
        "b",
    ]


def test_a_question_of_asnq_is_a_run_of_its_text_and_is_named_by_its_place(tmp_path):
    counted: Counter[str] = Counter()
    rows = list(read_dataset(put(tmp_path / "a.tsv", ASNQ), counted=counted))
    assert [(c.question_id, c.position, c.candidate_id, c.label) for c in rows] == [
        ("asnq-00000", 0, "0", 0),
        ("asnq-00000", 1, "1", 1),
        ("asnq-00001", 0, "0", 0),
        ("asnq-00002", 0, "0", 0),
    ]
    assert counted == {"class 1": 1, "class 2": 1, "class 3": 1, "class 4": 1}


@pytest.mark.parametrize(
    ("name", "text", "split"),
    [
        (
            "l.jsonl",
            '{"split": "dev", "question": "what is b"}\n{"split": "test", "question": "who is a"}\n',
            "dev",
        ),
        ("l.txt", "what is b\n", None),
    ],
)
def test_a_list_of_questions_cuts_asnq_and_ids_stay_those_of_the_whole_file(tmp_path, name, text, split):
    counted: Counter[str] = Counter()
    options = {"questions": put(tmp_path / name, text), "split": split}
    rows = list(read_dataset(put(tmp_path / "a.tsv", ASNQ), counted=counted, **options))
    assert [(c.question_id, c.text) for c in rows] == [("asnq-00001", "Five six.")]
    assert counted == {"class 1": 1, "rows of questions not listed": 3, "listed questions not found": 0}


def test_questions_of_the_list_that_asnq_does_not_have_are_counted(tmp_path):
    counted: Counter[str] = Counter()
    questions = put(tmp_path / "l.txt", "who is a\nwho is d\nwho is e\n")
    assert len(list(read_dataset(put(tmp_path / "a.tsv", ASNQ), counted=counted, questions=questions))) == 2
    assert counted["listed questions not found"] == 2


def test_a_list_without_the_split_or_a_split_without_a_list_is_refused(tmp_path):
    data, text = put(tmp_path / "a.tsv", ASNQ), put(tmp_path / "l.txt", "who is a\n")
    rows = put(tmp_path / "l.jsonl", '{"split": "dev", "question": "q"}\n')
    for options, says, code in [
        ({"split": "dev"}, "no list of questions", USAGE),
        ({"split": "dev", "questions": text}, "text lines name none", USAGE),
        ({"split": "test", "questions": rows}, "no question of split 'test'; it has dev", BAD_DATA),
        ({"questions": tmp_path / "none.txt"}, "none.txt: no such file", INPUT_MISSING),
        ({"questions": put(tmp_path / "e.txt", "\n")}, "e.txt: no question in it", BAD_DATA),
    ]:
        with pytest.raises(JobError, match=says) as raised:
            list(read_dataset(data, "asnq", **options))
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (["who is a\tOne two.\t0", "who is a\tThree.\t1"], [("tsv-00000", "0"), ("tsv-00000", "1")]),
        (["7\twho is a\tOne two.\t0", "7\twho is a\tThree.\t1"], [("7", "0"), ("7", "1")]),
        (
            ["label\tsentence\tdoc_id\tquestion", "0\tOne two.\tx\twho is a", "1\tThree.\ty\twho is a"],
            [("tsv-00000", "0"), ("tsv-00000", "1")],
        ),
        (
            [
                "qid\tquestion\tsentence_id\tsentence\tlabel",
                "7\twho is a\ts4\tOne two.\t0",
                "7\twho is a\ts5\tThree.\t1",
            ],
            [("7", "s4"), ("7", "s5")],
        ),
    ],
)
def test_plain_tables_are_read_with_and_without_header_and_ids(tmp_path, rows, ids):
    candidates_read = list(read_dataset(put(tmp_path / "t.tsv", "\n".join(rows)), "tsv"))
    assert [(c.question_id, c.candidate_id) for c in candidates_read] == ids
    assert [(c.text, c.label, c.position) for c in candidates_read] == [("One two.", 0, 0), ("Three.", 1, 1)]
    assert {c.question for c in candidates_read} == {"who is a"}


def test_labels_may_be_written_as_pandas_and_r_write_them(tmp_path):
    rows = "".join(
        f"who is it?\tIt is {n}.\t{label}\n"
        for n, label in enumerate(["1.0", "0.0", "True", "FALSE", "1", "0"])
    )
    for name, text in [("x.tsv", rows), ("y.tsv", "question\tsentence\tlabel\n" + rows)]:
        assert [row.label for row in read_dataset(put(tmp_path / name, text))] == [1, 0, 1, 0, 1, 0]


def test_a_table_of_other_names_or_in_quotes_is_the_same_set(tmp_path):
    plain = 'question_id\tquestion\tcandidate_id\tsentence\tlabel\n7\twho is a\ts4\tOne "two".\t0\n'
    expected = list(read_dataset(put(tmp_path / "t.tsv", plain)))
    pyterrier = plain.replace("question_id\tquestion\tcandidate_id\tsentence", "qid\tquery\tdocno\ttext")
    quoted = plain.replace('One "two".', '"One ""two""."').replace("label\n", "label\t\t\n")
    for text in (pyterrier, quoted):
        assert list(read_dataset(put(tmp_path / "t.tsv", text))) == expected
    german = plain.replace("question_id\tquestion\t", "nr\tfrage\t")
    form = TableForm(columns=Columns.of(["question_id=nr", "question=frage"]))
    assert list(read_dataset(put(tmp_path / "t.tsv", german), form)) == expected
    with pytest.raises(JobError, match="--columns is for tables, and asnq has its own") as e:
        read_dataset(put(tmp_path / "a.tsv", ASNQ), TableForm("asnq", form.columns))
    assert e.value.code == USAGE


def wiki(*rows):
    """A WikiQA file; a row is question id, question, sentence id, sentence and label."""
    return HEADER + "".join("{}\t{}\tD\tT\t{}\t{}\t{}\n".format(*row) for row in rows)


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        ("wikiqa", "", r"d.tsv:1: not WikiQA's header"),
        ("wikiqa", HEADER, r"d.tsv: no candidate in it"),
        ("wikiqa", ASNQ, r"d.tsv:1: not WikiQA's header"),
        ("wikiqa", wiki(("Q", "q", "D-0", "a\tb", 0)), r"d.tsv:2: 8 cells; there must be 7"),
        ("wikiqa", wiki(("Q", "q", "D-0", "a", 2)), r"d.tsv:2: label '2'; it must be one of 0, 1"),
        (
            "wikiqa",
            wiki(("Q", "q", "D-0", "a", 0), ("R", "r", "D-0", "a", 0), ("Q", "q", "D-1", "a", 0)),
            r"d.tsv:4: question 'Q' comes again; it began at 2",
        ),
        (
            "wikiqa",
            wiki(*[("Q", "q", "D-0", "a", 0)] * 2),
            r"d.tsv:3: candidate 'D-0' is twice in question 'Q'",
        ),
        (
            "wikiqa",
            wiki(("Q", "q", "D-0", "a", 0), ("Q", "r", "D-1", "a", 0)),
            r"d.tsv:3: question 'Q' has another text than at 2",
        ),
        ("wikiqa", wiki(("", "q", "D-0", "a", 0)), r"d.tsv:2: no question id"),
        ("wikiqa", wiki(("Q", " ", "D-0", "a", 0)), r"(?m)d.tsv:2: no question$"),
        ("asnq", WIKI, r"d.tsv:1: 7 cells; there must be 3"),
        ("asnq", "q\ta\t1\nq\ta\t0\n", r"d.tsv:2: label '0'; it must be one of 1, 2, 3, 4"),
        ("asnq", "q\ta\t4\nq\ta", r"d.tsv:2: 2 cells; there must be 3"),
        ("asnq", "", r"d.tsv: no candidate in it"),
        ("tsv", "q\ta\t1\nq\ta\t4\n", r"d.tsv:2: label '4'; it must be one of 0, 1"),
        (
            "tsv",
            "q\ta\t1\nr\ta\t0\nq\tb\t0\n",
            r"d.tsv:3: the question 'q' comes again; it began at 1.*sort the",
        ),
        ("asnq", "q\ta\t1\nr\ta\t2\nq\tb\t4\n", r"d.tsv:3: the question 'q' comes again"),
        (
            "tsv",
            "nr\tquestion\tsentence\tlabel\n7\tq\ta\t1\n",
            r"d.tsv:1: no column question_id; it has nr, .* --columns question_id=NAME; else leave nr out",
        ),
        ("tsv", "frage\tsentence\tlabel\nq\ta\t1\n", r"d.tsv:1: no column question; it has frage, sentence"),
        ("tsv", "q\ta\n", r"d.tsv:1: 2 cells and no header"),
        ("tsv", '{"question": "q"}\n', r"d.tsv:1: 1 cells and no header"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, form, text, says):
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(put(tmp_path / "d.tsv", text), form))
    assert raised.value.code == BAD_DATA


def test_bytes_that_are_no_text_and_a_cut_gzip_are_said_with_their_line(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_bytes(b"who is a\tOne.\t1\nwho is a\tcaf\xe9\t1\n")
    with pytest.raises(JobError, match=r"d.tsv:2: byte 13 of the line is not UTF-8"):
        list(read_dataset(path, "asnq"))
    path.write_bytes(
        gzip.compress("".join(f"who is a\t{n} {n * n}\t1\n" for n in range(5_000)).encode())[:-5_000]
    )
    with pytest.raises(JobError, match=r"d.tsv:\d+: broken gzip"):
        list(read_dataset(path, "asnq"))


def test_the_first_candidate_comes_before_the_rest_is_read(tmp_path):
    path = tmp_path / "a.tsv"
    with path.open("w") as file:
        file.writelines(["who is a\tOne.\t1\n"] * 100_000 + ["broken\n"])
    rows = read_dataset(path, "asnq")
    assert next(rows).text == "One."
    with pytest.raises(JobError, match=r":100001: 1 cells"):
        list(rows)


def test_four_times_the_pairs_need_no_more_memory(tmp_path):
    peaks = []
    for per_question in (100, 400):
        path = tmp_path / f"{per_question}.tsv"
        with path.open("w") as file:
            file.writelines(
                f"who is number {q}\tsentence {n}\t1\n" for q in range(50) for n in range(per_question)
            )
        tracemalloc.start()
        assert sum(1 for _ in read_dataset(path, "asnq")) == 50 * per_question
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 10_000  # the file has 300 kB more


def test_the_splits_of_asnq_have_their_published_questions(shared_data):
    path = shared_data / "questions/asnq-questions.jsonl.gz"
    assert {split: len(listed(path, split)) for split in ("train", "dev", "test")} == {
        "train": 57_242,
        "dev": 1_336,
        "test": 1_336,
    }


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_wikiqa_survives_its_own_form(shared_data, tmp_path, split):
    rows = list(read_dataset(shared_data / f"wikiqa/wikiqa-{split}.parquet"))
    cells = (
        (c.question_id, c.question, c.doc_id, c.title, c.candidate_id, c.text, str(c.label)) for c in rows
    )
    again = list(
        read_dataset(put(tmp_path / "w.tsv", HEADER + "".join("\t".join(row) + "\n" for row in cells)))
    )
    assert again == rows
    for _, group in groupby(again, lambda c: c.question_id):
        assert all(c.position == n for n, c in enumerate(group))
