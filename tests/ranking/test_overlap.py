from __future__ import annotations

import pytest

from ranking.overlap import Overlap
from ranking.reranker import Resources
from schemas.corpus import Passage, Question, Sentence
from schemas.ranked import Candidate, Hit, RankedList


def ranked(question: str, *sentences: str) -> RankedList:
    made = []
    for n, text in enumerate(sentences):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage(f"d#{n}", "d", "", "", n, n + len(text), text, (sentence,))
        made.append(Candidate(Hit("q", question, n + 1, 0.0, None, None, None, None, passage), sentence, n))
    return RankedList(Question("q", question), tuple(made))


def test_the_score_is_the_number_of_different_words_shared() -> None:
    came = ranked("How is the sea the colour of the sky?", "The sky, the sky!", "Is it the Sea or the sky?", "No.")
    (left,) = Overlap().rerank([came])
    assert [(c.text, c.score) for c in left.candidates] == [
        ("Is it the Sea or the sky?", 4),
        ("The sky, the sky!", 2),
        ("No.", 0),
    ]


def test_punctuation_is_no_word() -> None:
    (left,) = Overlap().rerank([ranked("Who? When? Why?", "? ! .")])
    assert left.candidates[0].score == 0


def test_ties_fall_to_the_original_rank_whatever_the_incoming_order() -> None:
    came = ranked("sea", "The sea.", "A sea.", "Sea!")
    turned = RankedList(came.question, came.candidates[::-1])
    (left,) = Overlap().rerank([turned])
    assert [c.position for c in left.candidates] == [0, 1, 2]


def test_a_checkpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no checkpoint"):
        Overlap.load(Resources("some/folder", lambda: pytest.fail("no encoder is needed")))
