from __future__ import annotations

import pytest

from answermill.ranking.rerankers.baselines.overlap import (
    RULES,
    Overlap,
    blank_words,
    cosinet_words,
    rule_scores,
)
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList


def ranked(question: str, *sentences: str) -> RankedList:
    candidates = []
    for n, text in enumerate(sentences):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage(f"d#{n}", "d", "", "", n, n + len(text), text, (sentence,))
        candidates.append(
            Candidate(Hit("q", question, n + 1, 0.0, None, None, None, None, passage), sentence, n)
        )
    return RankedList(Question("q", question), tuple(candidates))


def test_the_score_is_the_number_of_different_words_shared() -> None:
    came = ranked(
        "How is the sea the colour of the sky?", "The sky, the sky!", "Is it the Sea or the sky?", "No."
    )
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
        load_reranker("overlap", "some/folder")


# The rule baselines.


def test_the_rules_score_as_the_paper_says() -> None:
    candidates = ["nothing", "a b", "b", "a b c"]
    rule_values = {rule: rule_scores(rule, "a b", candidates, blank_words()) for rule in RULES}
    assert rule_values["random"] == [0, 0, 0, 0]
    assert rule_values["RR"] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert rule_values["WO"] == [0, 2, 1, 2]
    order = sorted(range(4), key=lambda n: -rule_values["WO+RR"][n])
    assert order == [1, 3, 2, 0] and len(set(rule_values["WO+RR"])) == 4


def test_rank_never_outweighs_a_word() -> None:
    first_with_less, last_with_more = rule_scores(
        "WO+RR", "a b", ["a", *["x"] * 50_000, "a b"], blank_words()
    )[::50_001]
    assert last_with_more > first_with_less


def test_cosinets_words_leave_a_dash_on_a_word_and_a_stop_with_its_hyphen() -> None:
    words = cosinet_words()
    assert words("Ten states— here") == {"ten", "states—", "here"}
    assert words("D.O.-granting schools?") == {"d.o", ".-", "granting", "schools", "?"}
