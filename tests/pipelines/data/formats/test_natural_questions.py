from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.formats.natural_questions import pages
from answermill.pipelines.errors import BAD_DATA, JobError

PAGE = """<H1> Snow </H1> <P> Snow is ice . It falls in winter . </P>
<Table> <Tr> <Td> winter </Td> <Td> cold </Td> </Tr> </Table>
<P> In winter it is cold . It melts at 3 < 4 . </P> <Ul> <Li> <P> rain </P> </Li> </Ul>"""
TOKENS = PAGE.split()
FIRST, TABLE, SECOND, LIST = (3, 14), (14, 24), (24, 39), (39, 46)
NESTED = (41, 44)
NONE = {
    "long_answer": {"candidate_index": -1, "start_token": -1, "end_token": -1},
    "short_answers": [],
    "yes_no_answer": "NONE",
}


def span(start, end, **more):
    return {"start_token": start, "end_token": end, **more}


def chose(number, *short):
    return {
        "long_answer": {"candidate_index": number},
        "short_answers": [span(*s) for s in short],
        "yes_no_answer": "NONE",
    }


def example(*annotations, example_id="7", original=True):
    row = {
        "example_id": example_id,
        "question_text": "when does snow fall",
        "document_url": "https://en.wikipedia.org/?title=Snow",
        "long_answer_candidates": [
            span(*c, top_level=c != NESTED) for c in (FIRST, TABLE, SECOND, LIST, NESTED)
        ],
        "annotations": list(annotations),
    }
    if original:
        tokens = [
            {"token": t, "html_token": t[0] == "<" and len(t) > 1, "start_byte": 0, "end_byte": 0}
            for t in TOKENS
        ]
        return row | {"document_title": "Snow", "document_html": "", "document_tokens": tokens}

    return row | {"document_text": " ".join(TOKENS)}


def put(path, *rows):
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def labels(path, **options):
    return [c.label for c in read_dataset(path, **options)]


def test_the_spans_of_the_page_are_what_they_should_be():
    assert [TOKENS[start] for start, _ in (FIRST, TABLE, SECOND, LIST, NESTED)] == [
        "<P>",
        "<Table>",
        "<P>",
        "<Ul>",
        "<P>",
    ]

    assert [TOKENS[end - 1] for _, end in (FIRST, TABLE, SECOND, LIST, NESTED)] == [
        "</P>",
        "</Table>",
        "</P>",
        "</Ul>",
        "</P>",
    ]


def test_nq_la_has_the_top_level_paragraphs_and_no_table_or_list(tmp_path):
    rows = list(read_dataset(put(tmp_path / "nq.jsonl.gz", example(chose(2)))))
    assert [(c.candidate_id, c.text, c.label) for c in rows] == [
        ("0", "Snow is ice . It falls in winter .", 0),
        ("2", "In winter it is cold . It melts at 3 < 4 .", 1),
    ]
    assert {(c.question_id, c.question, c.doc_id, c.title) for c in rows} == {
        ("7", "when does snow fall", "https://en.wikipedia.org/?title=Snow", "Snow")
    }


@pytest.mark.parametrize("form", ["nq-la", "nq-asnq"])
def test_the_simplified_format_gives_the_same_but_for_the_title(tmp_path, form):
    one, other = (
        [(c.candidate_id, c.text, c.label) for c in read_dataset(put(tmp_path / "nq.gz", row), form)]
        for row in (example(chose(0, (10, 11)), original=original) for original in (True, False))
    )
    assert one == other
    assert sum(label for _, _, label in one) == 1


def test_two_of_five_annotators_must_give_a_long_answer_and_then_each_counts(tmp_path):
    one, two = (
        put(tmp_path / f"{n}.gz", example(*a))
        for n, a in enumerate([[chose(0)] + [NONE] * 4, [chose(0), chose(2)] + [NONE] * 3])
    )
    assert labels(one) == [0, 0]
    assert labels(one, annotators=1) == [1, 0]
    assert labels(two) == [1, 1]
    assert labels(two, annotators=3) == [0, 0]


def test_a_long_answer_that_is_no_paragraph_leaves_the_question_unanswered_and_is_counted(tmp_path):
    counted: Counter[str] = Counter()
    assert (
        labels(put(tmp_path / "nq.gz", example(chose(1)), example(chose(4), example_id="8")), counted=counted)
        == [0] * 4
    )
    assert counted == {"long answer is no paragraph": 2, "questions without candidates": 0}


def test_asnq_has_the_sentences_of_the_whole_page_in_four_classes(tmp_path):
    counted: Counter[str] = Counter()
    rows = list(
        read_dataset(put(tmp_path / "nq.gz", example(chose(0, (10, 12)))), "nq-asnq", counted=counted)
    )
    assert TOKENS[10:12] == ["in", "winter"]
    assert [(c.text, c.label) for c in rows] == [
        ("Snow", 0),
        ("Snow is ice .", 0),
        ("It falls in winter .", 1),
        ("winter cold", 0),  # a table's row is one block
        ("In winter it is cold .", 0),
        ("It melts at 3 < 4 .", 0),
        ("rain", 0),
    ]
    assert [TOKENS[int(c.candidate_id)] for c in rows] == [c.text.split()[0] for c in rows]

    assert counted == {"class 4": 1, "class 3": 1, "class 1": 5, "questions without candidates": 0}


def test_class_2_holds_the_short_answer_outside_the_long_one(tmp_path):
    counted: Counter[str] = Counter()
    rows = list(
        read_dataset(put(tmp_path / "nq.gz", example(chose(0, (11, 12)))), "nq-asnq", counted=counted)
    )
    assert [c.text for c in rows if c.label] == ["It falls in winter ."]
    assert counted["class 2"] == 2  # the table's row and the second paragraph's first sentence


def test_pages_come_one_at_a_time(tmp_path):
    path = tmp_path / "nq.jsonl"
    path.write_text(json.dumps(example(chose(0))) + "\n{broken\n")
    rows = pages(path)
    assert next(rows).title == "Snow"
    with pytest.raises(JobError, match=r"nq.jsonl:2: not JSON"):
        next(rows)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"long_answer_candidates": [span(3, 99, top_level=True)]}, ":1: tokens 3 to 99 of a page of 46"),
        ({"annotations": [chose(5)]}, ":1: long answer 5 of 5 candidates"),
        ({"annotations": [{}]}, ":1: 'long_answer' must be a dict"),
        ({"long_answer_candidates": [span(3, 9)]}, ":1: 'top_level' must be a bool"),
        ({"question_text": None}, ":1: 'question_text' must be a str"),
        ({"document_tokens": ["Snow"]}, ":1: 'token' must be a str"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, change, says):
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(put(tmp_path / "nq.gz", example(chose(0)) | change), "nq-la"))
    assert raised.value.code == BAD_DATA
