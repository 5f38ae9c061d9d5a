from __future__ import annotations

import json
from collections import Counter
from itertools import groupby

import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.formats.squad import positive_sentence
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError

CONTEXT = "Ice melts. Dr. Snow left in 1850 and came back. He died."


def answer(text, start=None):
    return {
        "text": text,
        "answer_start": CONTEXT.index(text) if start is None else start,
        "answer_start_certain": True,
    }


def asked(question_id, *answers, **more):
    return {"id": question_id, "question": "When?", "answers": list(answers), **more}


def squad(path, *questions, context=CONTEXT):
    article = {
        "title": "Snow",
        "paragraphs": [{"context": "First.", "qas": []}, {"context": context, "qas": list(questions)}],
    }
    path.write_text(json.dumps({"version": "2.0", "data": [article]}))
    return path


def test_a_paragraph_is_cut_into_sentences_and_the_one_with_the_answer_is_positive(tmp_path):
    path = squad(tmp_path / "s.json", asked("a", answer("1850")), asked("b", is_impossible=True))
    rows = list(read_dataset(path))
    assert [(c.question_id, c.candidate_id, c.text, c.label) for c in rows[:3]] == [
        ("a", "Snow#1@0", "Ice melts.", 0),
        ("a", "Snow#1@11", "Dr. Snow left in 1850 and came back.", 1),
        ("a", "Snow#1@48", "He died.", 0),
    ]
    assert [(c.question_id, c.doc_id, c.title, c.position, c.label) for c in rows[3:]] == [
        ("b", "Snow#1", "Snow", n, 0) for n in range(3)
    ]


def test_the_splitter_can_be_chosen(tmp_path):
    path = squad(tmp_path / "s.json", asked("a", answer("1850")))
    assert [c.text for c in read_dataset(path, splitter="spacy")] == [c.text for c in read_dataset(path)]
    assert [(c.text, c.label) for c in read_dataset(path, splitter=lambda text: [(0, len(text))])] == [
        (CONTEXT, 1)
    ]
    with pytest.raises(JobError, match="--splitter nltk: input should be 'rules' or 'spacy'") as raised:
        read_dataset(path, splitter="nltk")
    assert raised.value.code == USAGE


def test_most_annotators_decide_then_the_first_of_them():
    sentences = [(0, 9), (10, 19), (20, 29)]
    assert positive_sentence(sentences, []) is None
    assert positive_sentence(sentences, [(22, 23), (1, 2), (12, 13), (14, 15)]) == 1
    assert positive_sentence(sentences, [(22, 23), (1, 2)]) == 2
    assert positive_sentence(sentences, [(9, 12)]) == 0  # between two, and into the next


def test_an_answer_across_sentences_counts_where_it_starts_and_is_counted(tmp_path):
    counted: Counter[str] = Counter()
    path = squad(tmp_path / "s.json", asked("a", answer("came back. He died")), asked("b", answer("He")))
    labels = [c.label for c in read_dataset(path, counted=counted)]
    assert labels == [0, 1, 0, 0, 0, 1]
    assert counted == {"answered across sentences": 1, "questions without candidates": 0}


def test_an_empty_paragraph_leaves_its_questions_without_candidates(tmp_path):
    counted: Counter[str] = Counter()
    with pytest.raises(JobError, match="no candidate in it"):
        list(read_dataset(squad(tmp_path / "s.json", asked("a"), context=" "), counted=counted))
    assert counted["questions without candidates"] == 1


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (
            asked("a", answer("1850", 3)),
            r"data\[0\].paragraphs\[1\].qas\[0\]: answer '1850' does not stand at 3",
        ),
        (asked("a", {"text": "1850"}), "'answer_start' must be a int, not 'None'"),
        (asked(7), "'id' must be a str, not '7'"),
        ({"id": "a", "question": "q"}, "'answers' must be a list"),
        ("a", "'id' must be a str"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, question, says):
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(squad(tmp_path / "s.json", question)))
    assert raised.value.code == BAD_DATA


def test_a_question_id_that_comes_again_is_refused_even_where_the_candidates_differ(tmp_path):
    path = squad(tmp_path / "s.json", asked("a"))
    data = json.loads(path.read_text())
    data["data"][0]["paragraphs"][0]["qas"] = [asked("a")]
    path.write_text(json.dumps(data))
    with pytest.raises(
        JobError, match=r"data\[0\].paragraphs\[1\].qas\[0\]: question 'a' comes again; it began at data\[0\]"
    ):
        list(read_dataset(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "'data' must be a list"), ('{"data":\n[,', r"s.json:2: not JSON"), ("[]", "'data' must be a list")],
)
def test_other_json_is_refused(tmp_path, text, says):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(JobError, match=says):
        list(read_dataset(tmp_path / "s.json", "squad"))


@pytest.mark.parametrize(
    ("splitter", "sentences", "across", "p1", "mean_average_precision", "same"),
    [
        ("rules", 62_966, 10, 30.75, 53.75, 5_639),
        ("spacy", 62_290, 18, 31.29, 54.21, 5_631),
    ],
)
@pytest.mark.nightly
def test_squad_sent_comes_out_close_to_the_paper(
    shared_data, splitter, sentences, across, p1, mean_average_precision, same
):  # Cosinet Table 2: 63,959 sentences, 49.92 %, P@1 30.54, MAP 53.53
    counted: Counter[str] = Counter()
    path = shared_data / "squad/squad-dev-v2.0.json.gz"
    rows = list(read_dataset(path, splitter=splitter, counted=counted))
    labels = [[c.label for c in group] for _, group in groupby(rows, lambda c: c.question_id)]
    assert (len(labels), len(rows)) == (11_873, sentences)
    assert counted == {"answered across sentences": across, "questions without candidates": 0}
    positives = {c.question_id: c for c in rows if c.label}
    assert len(positives) == sum(c.label for c in rows) == 5_928
    ranks = [c.position + 1 for c in positives.values()]
    assert 100 * ranks.count(1) / len(ranks) == pytest.approx(p1, abs=0.005)

    assert 100 * sum(1 / rank for rank in ranks) / len(ranks) == pytest.approx(
        mean_average_precision, abs=0.005
    )
    theirs = {
        c.question_id: c for c in read_dataset(shared_data / "squad/squad-sent-test.parquet") if c.label
    }
    assert theirs.keys() == positives.keys()
    assert sum(positives[name].text == c.text for name, c in theirs.items()) == same
    assert all(positives[name].doc_id == c.doc_id for name, c in theirs.items())
