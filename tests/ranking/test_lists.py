from __future__ import annotations

from dataclasses import replace

import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import to_passages
from answermill.schemas.labels import LabelledCandidate


def candidates(*docs: str) -> list[LabelledCandidate]:
    return [
        LabelledCandidate("q", "Why?", f"c{n}", doc, "", n, f"Text {n}.", 0) for n, doc in enumerate(docs)
    ]


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


def around(name: str, previous: str | None, following: str | None) -> LabelledCandidate:
    return replace(
        candidates("a")[0], candidate_id=name, text=f"Text {name}.", previous=previous, next=following
    )


def test_neighbours_that_the_set_says_are_the_passage_s_and_are_no_candidates() -> None:
    rows = [
        around("c4", "Text 3.", "Text 5."),
        around("c6", "Text 5.", ""),
        around("c9", None, None),
        around("c10", None, None),
    ]
    ranked = ranked_list(rows)
    assert [c.candidate_id for c in ranked.candidates] == ["c4", "c6", "c9", "c10"]
    texts = [[s.text for s in c.hit.passage.sentences] for c in ranked.candidates]
    assert texts[:2] == [["Text 3.", "Text c4.", "Text 5."], ["Text 5.", "Text c6."]]

    assert texts[2] == texts[3] == ["Text c9.", "Text c10."]
    for candidate in ranked.candidates:
        assert candidate.sentence is not None
        assert candidate.hit.passage.text[candidate.sentence.start : candidate.sentence.end] == candidate.text

    assert len({s.sentence_id for c in ranked.candidates[:2] for s in c.hit.passage.sentences}) == 5


def test_in_a_run_the_neighbours_that_the_set_says_are_no_candidates_either() -> None:
    ranked = ranked_list([around("c4", "Text 3.", "Text 5."), around("c6", "Text 5.", "")], neighbours=False)
    assert [[s.text for s in c.hit.passage.sentences] for c in ranked.candidates] == [
        ["Text c4."],
        ["Text c6."],
    ]
