from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexing.labels import GivenLabel, GivenLabels, documents, propagate
from schemas.corpus import Passage, Sentence
from schemas.labels import DocumentLabel, PassageLabel, SentenceLabel


def sentence(doc_id: str, start: int, text: str = "") -> Sentence:
    text = text or f"Sentence {start} of {doc_id}."
    return Sentence(f"{doc_id}@{start}", start, start + len(text), text)


def passage(doc_id: str, n: int, *sentences: Sentence) -> Passage:
    return Passage(f"{doc_id}#{n}", doc_id, "", "", sentences[0].start, sentences[-1].end, "", sentences)


A, B, C = sentence("d", 0), sentence("d", 100), sentence("d", 200)
OVERLAPPING = [passage("d", 0, A, B), passage("d", 1, B, C), passage("e", 0, sentence("e", 0, "SENTENCE 100  of d."))]


def of_id(number: int, sentence_id: str, label: int, question_id: str = "q") -> GivenLabel:
    return GivenLabel(number, question_id, sentence_id, None, label)


def test_a_label_reaches_every_passage_that_holds_its_sentence() -> None:
    found, used = GivenLabels([of_id(1, "d@100", 1)]).of(OVERLAPPING)
    assert used == {1}
    assert [(p.passage_id, p.label, p.sentence_ids) for p in propagate(found, OVERLAPPING)] == [
        ("d#0", 1, ("d@100",)),
        ("d#1", 1, ("d@100",)),
    ]


def test_a_passage_is_positive_if_one_of_its_sentences_is() -> None:
    found, _ = GivenLabels([of_id(1, "d@0", 1), of_id(2, "d@100", 0)]).of(OVERLAPPING)
    assert propagate(found, OVERLAPPING) == [
        PassageLabel("q", "d#0", "d", 1, ("d@0", "d@100")),
        PassageLabel("q", "d#1", "d", 0, ("d@100",)),
    ]
    assert documents(found) == [DocumentLabel("q", "d", 1)]


def test_a_label_by_text_holds_on_every_page_whatever_case_and_white_space() -> None:
    found, used = GivenLabels([GivenLabel(5, "q", None, "sentence 100 of\td.", 1)]).of(OVERLAPPING)
    assert [label.sentence_id for label in found] == ["d@100", "e@0"]
    assert used == {5}


def test_where_id_and_text_disagree_the_id_holds() -> None:
    by_text = GivenLabel(1, "q", None, B.text, 1)
    found, _ = GivenLabels([by_text, of_id(2, "d@100", 0)]).of(OVERLAPPING)
    assert [(label.sentence_id, label.label) for label in found] == [("d@100", 0), ("e@0", 1)]


def test_labels_of_different_questions_do_not_meet() -> None:
    found, _ = GivenLabels([of_id(1, "d@0", 1, "q1"), of_id(2, "d@0", 0, "q2")]).of(OVERLAPPING)
    assert [(p.question_id, p.label) for p in propagate(found, OVERLAPPING)] == [("q1", 1), ("q2", 0)]


def test_a_label_of_a_sentence_that_is_nowhere_is_not_used() -> None:
    assert GivenLabels([of_id(1, "x@0", 1)]).of(OVERLAPPING) == ([], set())


@given(
    labels=st.dictionaries(st.tuples(st.sampled_from(["q1", "q2"]), st.integers(0, 9)), st.integers(0, 1), max_size=12),
    windows=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=8),
)
def test_propagation_equals_its_definition(labels: dict[tuple[str, int], int], windows: list[tuple[int, int]]) -> None:
    """A passage is labelled if it holds a labelled sentence, positive if it holds a correct one (WQA §3.3)."""
    sentences = [sentence("d", n) for n in range(10)]
    passages = [passage("d", n, *sentences[first : first + size]) for n, (first, size) in enumerate(windows)]
    given_labels = [SentenceLabel(q, f"d@{n}", "d", "", label) for (q, n), label in labels.items()]
    made = {(p.question_id, p.passage_id): p.label for p in propagate(given_labels, passages)}
    for question in ("q1", "q2"):
        for p in passages:
            held = [labels[question, s.start] for s in p.sentences if (question, s.start) in labels]
            assert made.get((question, p.passage_id)) == (max(held) if held else None)
