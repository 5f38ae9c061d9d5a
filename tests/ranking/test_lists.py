from __future__ import annotations

import pytest

from ranking.lists import ranked_list
from ranking.plan import to_passages
from schemas.labels import LabelledCandidate


def candidates(*docs: str) -> list[LabelledCandidate]:
    return [LabelledCandidate("q", "Why?", f"c{n}", doc, "", n, f"Text {n}.", 0) for n, doc in enumerate(docs)]


def test_the_original_order_and_the_ids_stay() -> None:
    ranked = ranked_list(candidates("a", "a", "b"))
    assert [(c.candidate_id, c.position, c.text) for c in ranked.candidates] == [
        ("c0", 0, "Text 0."),
        ("c1", 1, "Text 1."),
        ("c2", 2, "Text 2."),
    ]


def test_the_sentences_of_a_document_are_spans_of_its_passage() -> None:
    ranked = ranked_list(candidates("a", "a", "b"))
    for candidate in ranked.candidates:
        assert candidate.sentence is not None
        assert candidate.hit.passage.text[candidate.sentence.start : candidate.sentence.end] == candidate.text
    assert len(to_passages(ranked).candidates) == 2


def test_candidates_without_a_document_are_passages_of_their_own() -> None:
    assert len(to_passages(ranked_list(candidates("", "", ""))).candidates) == 3


def test_candidates_of_two_questions_are_refused() -> None:
    mixed = [*candidates("a"), LabelledCandidate("r", "Who?", "c9", "a", "", 0, "Text.", 0)]
    with pytest.raises(ValueError, match="2 candidates of 2 questions"):
        ranked_list(mixed)
