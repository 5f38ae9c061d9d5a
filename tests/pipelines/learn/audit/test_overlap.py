"""What training lists share with a test set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from answermill.pipelines.learn.audit.overlap import RUN, Overlap, add_vectors, overlap, runs_of_words
from answermill.schemas.arrays import Vectors
from answermill.schemas.labels import LabelledCandidate

LONG = "the old bridge over the wide river was opened by the mayor in May 1932 on a rainy day"
Candidates = Sequence[tuple[str, int]]


def question(name: str, text: str, candidates: Candidates) -> list[LabelledCandidate]:
    return [
        LabelledCandidate(name, text, f"{name}-{n}", "", "", n, candidate, label)
        for n, (candidate, label) in enumerate(candidates)
    ]


TEST = [
    question("t1", "When was the old bridge over the river opened?", [(LONG, 1), ("No one knows.", 0)]),
    question("t2", "Who is it?", [("It is Ann.", 1), ("It is a secret of the town.", 0)]),
]


def found(training: list[list[LabelledCandidate]]) -> dict[str, list[str]]:
    """Kind → test questions, of the kinds that were found."""
    kinds = overlap(training, TEST).shared
    return {kind: sorted(questions) for kind, questions in kinds.items() if questions}


@pytest.mark.parametrize(
    ("text", "candidates", "kinds"),
    [
        ("What else?", [("Something else.", 1)], {}),
        ("who is it", [("Something else.", 1)], {"question_equal": ["t2"]}),
        ("Tell me: when was the old bridge over the river opened?", [("x", 1)], {"question_near": ["t1"]}),
        ("it who is it", [("x", 1)], {"question_near": ["t2"]}),
        ("What else?", [("it is ANN", 1)], {"answer_equal": ["t2"]}),
        ("What else?", [("it is ANN", 0)], {}),  # wrong there
        (
            "What else?",
            [("Surely, " + LONG, 1)],
            {"answer_near": ["t1"], "run_of_answer": ["t1"], "run_of_any": ["t1"]},
        ),
        ("What else?", [("Far away " * 20 + LONG, 0)], {"run_of_answer": ["t1"], "run_of_any": ["t1"]}),
        (
            "Who is it?",
            [("It is Ann", 1)],
            {"question_equal": ["t2"], "answer_equal": ["t2"], "pair": ["t2"]},
        ),
    ],
)
def test_each_kind_is_found_where_it_is(
    text: str, candidates: Candidates, kinds: dict[str, list[str]]
) -> None:
    assert found([question("r", text, candidates)]) == kinds


def test_the_answer_of_another_question_makes_no_pair() -> None:
    training = [question("r1", "Who is it?", [("x", 1)]), question("r2", "What else?", [("It is Ann.", 1)])]
    assert found(training) == {"question_equal": ["t2"], "answer_equal": ["t2"]}


def test_twelve_words_are_no_run() -> None:
    words = [f"w{n}" for n in range(20)]
    assert RUN == 13 and len(runs_of_words(" ".join(words))) == 8
    assert not runs_of_words(" ".join(words[:12]))


def test_shares_are_of_the_test_questions_and_the_likest_come_first() -> None:
    training = [
        question("r1", "Surely, when was the old bridge over the river opened?", [("x", 1)]),
        question("r2", "Well, surely: when was the old bridge over the river opened?", [("x", 1)]),
    ]
    for lists in (training, training[::-1]):
        result = overlap(lists, TEST)
        (worst,) = result.worst("question_near")
        assert worst.training_question_id == "r1" and 0.6 < worst.likeness < 1
        assert result.share("question_near") == 0.5
        assert (result.questions, result.training_questions, result.training_candidates) == (2, 2, 2)


def vectors(texts: Sequence[str]) -> Vectors:
    """A vector that says which of three things a text is about."""
    return np.array(
        [[float(word in text) for word in ("Ann", "bridge", "else")] for text in texts], np.float32
    )


def test_near_vectors_are_found_and_equal_texts_are_not_counted_again() -> None:
    training = [
        question("r1", "Tell me of the bridge.", [("Ann it was.", 1), ("Ann!", 0)]),
        question("r2", "What else?", [("it is Ann", 1)]),
    ]
    result = Overlap(questions=2)
    add_vectors(result, training, TEST, vectors, 10)
    assert result.encoded == 4
    assert {kind: list(shared) for kind, shared in result.shared.items() if shared} == {
        "question_vector": ["t1"],
        "answer_vector": ["t2"],
    }
    assert result.shared["answer_vector"]["t2"].training_text == "Ann it was."


def test_no_more_texts_are_encoded_than_asked() -> None:
    training = [question(f"r{n}", f"What else {n}?", [(f"Answer {n}.", 1)]) for n in range(9)]
    asked = list[int]()

    def encode(texts: Sequence[str]) -> Vectors:
        asked.append(len(texts))
        return vectors(texts)

    result = Overlap(questions=2)
    add_vectors(result, training, TEST, encode, 4)
    assert result.encoded == 8 and sorted(asked) == [2, 2, 4, 4]
