"""What PEASI learns from: whose passages, and which wrong ones."""

from __future__ import annotations

from answermill.schemas.corpus import Passage, Sentence
from answermill.schemas.ranked import Hit
from experiments import peasi_data
from experiments.peasi_data import holds_answer, labelled, without_test_answers, wrong_passages
from experiments.question_sets.gold import Asked

ASKED = Asked("squad:1", "Which comet?", "Comets", (("own", "It is the comet."),), ("the comet",))


def passage(name: str, *texts: str, doc_id: str = "own") -> Passage:
    sentences = tuple(Sentence(f"{doc_id}@{name}{n}", n, n + 1, text) for n, text in enumerate(texts))
    return Passage(name, doc_id, "", "Comets", 0, 9, " ".join(texts), sentences)


def hit(rank: int, doc_id: str) -> Hit:
    shown = passage(f"{doc_id}#{rank}", f"Sentence {rank}.", doc_id=doc_id)
    return Hit(ASKED.question_id, ASKED.text, rank, 1 / rank, None, None, None, None, shown)


def test_wrong_passages_are_of_the_same_document_and_of_others_among_the_best() -> None:
    hits = [hit(rank, "own" if rank % 3 else f"other{rank}") for rank in range(1, 200)]
    chosen = wrong_passages(ASKED, hits, 2, 3)
    assert [each.passage.doc_id == "own" for each in chosen] == [True, True, False, False, False]
    assert max(each.rank for each in chosen[:2]) <= 1.5 * peasi_data.POOL
    assert max(each.rank for each in chosen[2:]) <= 3 * peasi_data.POOL
    assert wrong_passages(ASKED, hits[::-1], 2, 3) == chosen


def test_a_passage_that_holds_a_short_answer_is_not_taken_for_wrong() -> None:
    assert holds_answer(passage("p", "A tail.", "See THE  comet!"), ASKED)
    assert not holds_answer(passage("p", "The comets."), ASKED)


def test_no_passage_with_an_answer_to_a_test_question_is_learnt_from() -> None:
    rows = [
        labelled("q", "?", passage(name, *texts), {"own@a1"}, "window")
        for name, texts in (
            ("a", ("One.", "Two.")),
            ("b", ("Three.", "It was  HERE.")),
            ("c", ("It was here, once.",)),
        )
    ]
    assert [row.label for row in rows] == [1, 0, 0]
    assert [row.passage_id for row in without_test_answers(rows, {"it was here."})] == ["a", "c"]
