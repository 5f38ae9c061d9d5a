"""Propagation by hand, and held to its definition over random documents, passages and labels."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.labels.conflicts import conflicts
from answermill.indexing.labels.given_labels import (
    GIVEN_LABEL,
    SPREAD_LABEL,
    Contradiction,
    GivenLabels,
    may_contradict,
)
from answermill.indexing.labels.label_lookup import labels_to_spread
from answermill.indexing.labels.propagation import label_sentences
from answermill.indexing.labels.sentence_table import SentenceTable
from answermill.indexing.passages.text import fold
from answermill.schemas.corpus import Passage, Sentence
from answermill.schemas.labels import DocumentLabel, LabelConflict, PassageLabel, SentenceLabel

LabelRow = tuple[str, str | None, str | None, int]
"""Question, sentence id, text, label; its number is its place from 1."""


def sentence(doc_id: str, start: int, text: str = "") -> Sentence:
    text = text or f"Sentence {start} of {doc_id}."
    return Sentence(f"{doc_id}@{start}", start, start + len(text), text)


def passage(doc_id: str, n: int, *sentences: Sentence) -> Passage:
    return Passage(f"{doc_id}#{n}", doc_id, "", "", sentences[0].start, sentences[-1].end, "", sentences)


A, B, C = sentence("d", 0), sentence("d", 100), sentence("d", 200)
OVERLAPPING = [
    passage("d", 0, A, B),
    passage("d", 1, B, C),
    passage("e", 0, sentence("e", 0, "SENTENCE 100  of d.")),
]


@dataclass
class Propagation:
    sentences: list[SentenceLabel]
    passages: list[PassageLabel]
    documents: list[DocumentLabel]
    conflicts: list[LabelConflict]
    used: set[int]
    changed: set[int]
    repeated: set[int]


def batch(labels: Sequence[LabelRow], first: int = 1) -> pa.RecordBatch:
    rows = [(first + n, *values) for n, values in enumerate(labels)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    arrays = [pa.array(values, field.type) for values, field in zip(columns, GIVEN_LABEL, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=GIVEN_LABEL)


def propagate(
    labels: Sequence[LabelRow], passages: Sequence[Passage], same_text: bool = False, at_once: int = 100
) -> Propagation:
    """As the step does, some documents at a time."""
    by_document: dict[str, list[Passage]] = {}
    for each in passages:
        by_document.setdefault(each.doc_id, []).append(each)
    documents = list(by_document.values())
    chunks = [list(chain(*documents[n : n + at_once])) for n in range(0, len(documents), at_once)]
    sentences = [SentenceTable.read(Passage.table(chunk)) for chunk in chunks]
    outcome = Propagation([], [], [], [], set(), set(), set())

    with tempfile.TemporaryDirectory() as folder:
        ready = GivenLabels(Path(folder))
        cut = len(labels) // 2
        assert ready.write([batch(labels[:cut]), batch(labels[cut:], cut + 1)])[0] == len(labels)
        if same_text:
            ready.spread([labels_to_spread(chunk, ready).cast(SPREAD_LABEL) for chunk in sentences])

        for chunk in sentences:
            labelled = label_sentences(chunk, ready)
            tables = labelled.tables()
            outcome.sentences += SentenceLabel.rows(tables["sentences"])
            outcome.passages += PassageLabel.rows(tables["passages"])
            outcome.documents += DocumentLabel.rows(tables["documents"])
            outcome.conflicts += conflicts(labelled)
            outcome.used |= set(labelled.used.tolist())
            outcome.changed |= set(labelled.changed.tolist())

        outcome.repeated = set(ready.repeated()[0].tolist())

    return outcome


def test_a_label_reaches_every_passage_that_holds_its_sentence() -> None:
    outcome = propagate([("q", "d@100", None, 1)], OVERLAPPING)
    assert outcome.used == {1}
    assert [(p.passage_id, p.label, p.sentence_ids) for p in outcome.passages] == [
        ("d#0", 1, ("d@100",)),
        ("d#1", 1, ("d@100",)),
    ]
    assert outcome.sentences == [SentenceLabel("q", "d@100", "d", B.text, 1, "given")]


def test_a_passage_is_positive_if_one_of_its_sentences_is() -> None:
    outcome = propagate([("q", "d@0", None, 1), ("q", "d@100", None, 0)], OVERLAPPING)
    assert outcome.passages == [
        PassageLabel("q", "d#0", "d", 1, ("d@0", "d@100")),
        PassageLabel("q", "d#1", "d", 0, ("d@100",)),
    ]
    assert outcome.documents == [DocumentLabel("q", "d", 1)] and not outcome.conflicts


def test_a_label_by_text_holds_on_every_page_whatever_case_and_white_space() -> None:
    outcome = propagate([("q", None, "sentence 100 of\td.", 1)], OVERLAPPING)
    assert [(row.sentence_id, row.source) for row in outcome.sentences] == [
        ("d@100", "text"),
        ("e@0", "text"),
    ]
    assert outcome.used == {1}


def test_where_id_and_text_disagree_the_id_holds_and_the_conflict_is_told() -> None:
    outcome = propagate([("q", None, B.text, 1), ("q", "d@100", None, 0)], OVERLAPPING)
    assert [(row.sentence_id, row.label) for row in outcome.sentences] == [("d@100", 0), ("e@0", 1)]
    assert outcome.conflicts == [LabelConflict("q", "d", None, ("d@100",), B.text, 0, 1, 0, 1, 2, 0)]


def test_labels_of_different_questions_do_not_meet() -> None:
    outcome = propagate([("q1", "d@0", None, 1), ("q2", "d@0", None, 0)], OVERLAPPING)
    assert [(p.question_id, p.label) for p in outcome.passages] == [("q1", 1), ("q2", 0)]


def test_a_label_of_a_sentence_that_is_nowhere_is_not_used() -> None:
    outcome = propagate([("q", "x@0", None, 1), ("q", None, "Nowhere.", 1)], OVERLAPPING)
    assert outcome == Propagation([], [], [], [], set(), set(), set())


def test_a_label_whose_sentence_has_another_text_now_is_not_used() -> None:
    outcome = propagate(
        [("q", "d@0", "SENTENCE 0 of  d.", 1), ("q", "d@100", "Once it read so.", 1)], OVERLAPPING
    )
    assert (outcome.used, outcome.changed, [row.sentence_id for row in outcome.sentences]) == (
        {1},
        {2},
        ["d@0"],
    )


def test_a_label_that_says_the_same_again_is_noted_and_not_used() -> None:
    outcome = propagate(
        [("q", "d@0", None, 1), ("q", "d@0", None, 1), ("q", None, "It.", 0), ("q", None, " it. ", 0)],
        OVERLAPPING,
    )
    assert (outcome.used, outcome.repeated) == ({1}, {2, 4})


@pytest.mark.parametrize("by", [("d@0", None), (None, "It is."), ("d@0", "It is.")])
def test_labels_that_contradict_each_other_are_refused_with_both_lines(by) -> None:
    labels: list[LabelRow] = [
        ("q", "d@9", None, 1),
        ("q", *by, 1),
        ("r", *by, 0),
        ("q", *by, 1),
        ("q", *by, 0),
    ]
    with pytest.raises(Contradiction, match="labelled 0, but 1 in line 2") as e:
        propagate(labels, OVERLAPPING)
    assert e.value.number == 5
    assert may_contradict([batch(labels[:3]), batch(labels[3:], 4)])
    assert not may_contradict([batch(labels[:3]), batch(labels[3:4], 4)])


def test_a_label_by_id_holds_for_the_same_text_elsewhere_where_that_is_asked_for() -> None:
    labels: list[LabelRow] = [("q", "d@100", None, 1)]
    assert [row.sentence_id for row in propagate(labels, OVERLAPPING).sentences] == ["d@100"]
    outcome = propagate(labels, OVERLAPPING, same_text=True)
    assert [(row.sentence_id, row.source) for row in outcome.sentences] == [
        ("d@100", "given"),
        ("e@0", "same_text"),
    ]


def test_between_texts_the_majority_holds_and_a_tie_leaves_the_sentence_out() -> None:
    many = [passage("d", n, sentence("d", 100 * n, "Yes.")) for n in range(4)]
    labels: list[LabelRow] = [("q", "d@0", None, 1), ("q", "d@100", None, 0), ("q", "d@200", None, 0)]
    outcome = propagate(labels, many, same_text=True)
    assert [(row.sentence_id, row.label, row.source) for row in outcome.sentences][3] == (
        "d@300",
        0,
        "same_text",
    )
    assert [(c.sentence_ids, c.given, c.positive, c.negative, c.label) for c in outcome.conflicts] == [
        (("d@0",), 1, 1, 2, 1),
        (("d@100",), 0, 1, 2, 0),
        (("d@200",), 0, 1, 2, 0),
        (("d@300",), None, 1, 2, 0),
    ]

    tie = propagate(labels[:2], many, same_text=True)
    assert [row.sentence_id for row in tie.sentences] == ["d@0", "d@100"]
    assert [(c.sentence_ids, c.positive_line, c.negative_line, c.label) for c in tie.conflicts[2:]] == [
        (("d@200",), 1, 2, None),
        (("d@300",), 1, 2, None),
    ]


def test_one_text_labelled_both_ways_in_one_passage_is_told() -> None:
    twice = [passage("d", 0, sentence("d", 0, "Yes."), sentence("d", 50, "No."), sentence("d", 100, "yes."))]
    outcome = propagate([("q", "d@0", None, 0), ("q", "d@50", None, 0), ("q", "d@100", None, 1)], twice)
    assert outcome.conflicts == [
        LabelConflict("q", "d", "d#0", ("d@0", "d@100"), "Yes.", None, 1, 1, 3, 1, 1)
    ]
    assert outcome.passages[0].label == 1


# The definition, in words: what is said above, of one sentence, passage and document at a time.


def defined(labels: Sequence[LabelRow], passages: Sequence[Passage], same_text: bool) -> Propagation:
    texts = {s.sentence_id: s.text for p in passages for s in p.sentences}
    expected = Propagation([], [], [], [], set(), set(), set())
    by_id: dict[tuple[str, str], tuple[int, int]] = {}
    votes: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    seen: set[object] = set()

    for number, (question, sentence_id, text, value) in enumerate(labels, 1):
        folded = None if text is None else fold(text)
        if (question, sentence_id, folded) in seen:
            expected.repeated.add(number)
        elif sentence_id is None:
            assert folded is not None
            votes.setdefault((question, folded), []).append((value, number, "text"))
            expected.used |= {number} if folded in {fold(text) for text in texts.values()} else set()
        elif sentence_id in texts and folded not in (None, fold(texts[sentence_id])):
            expected.changed.add(number)
        elif sentence_id in texts:
            expected.used.add(number)
            if (question, sentence_id) not in by_id:
                by_id[question, sentence_id] = (value, number)
                if same_text:
                    votes.setdefault((question, fold(texts[sentence_id])), []).append(
                        (value, number, "same_text")
                    )

        seen.add((question, sentence_id, folded))

    final: dict[tuple[str, str], int] = {}
    for question in sorted({row[0] for row in labels}):
        for sentence_id, text in texts.items():
            cast = votes.get((question, fold(text)), [])
            own = by_id.get((question, sentence_id))
            ones, zeros = ([vote for vote in cast if vote[0] == value] for value in (1, 0))
            most = 1 if len(ones) > len(zeros) else 0 if len(zeros) > len(ones) else None
            value = own[0] if own else most
            lines = {
                v: [vote[1] for vote in [*cast, *([own] if own else [])] if vote[0] == v] for v in (0, 1)
            }
            doc_id = sentence_id.partition("@")[0]

            if lines[0] and lines[1]:
                expected.conflicts.append(
                    LabelConflict(
                        question, doc_id, None, (sentence_id,), text, own[0] if own else None,
                        len(ones), len(zeros), min(lines[1]), min(lines[0]), value,
                    )
                )  # fmt: skip

            if value is not None:
                final[question, sentence_id] = value
                by = (
                    "given"
                    if own
                    else "text"
                    if any(v == value and how == "text" for v, _, how in cast)
                    else "same_text"
                )
                expected.sentences.append(SentenceLabel(question, sentence_id, doc_id, text, value, by))

        for p in passages:
            held = {
                s.sentence_id: final[question, s.sentence_id]
                for s in p.sentences
                if (question, s.sentence_id) in final
            }
            if held:
                expected.passages.append(
                    PassageLabel(question, p.passage_id, p.doc_id, max(held.values()), tuple(held))
                )

            for text in sorted({fold(texts[s]) for s in held}):
                same = [s for s in held if fold(texts[s]) == text]
                if len({held[s] for s in same}) == 2:
                    expected.conflicts.append(
                        LabelConflict(question, p.doc_id, p.passage_id, tuple(same), texts[same[0]], None,
                                      sum(held[s] for s in same), sum(1 - held[s] for s in same), 0, 0, 1)
                    )  # fmt: skip

        for doc_id in dict.fromkeys(p.doc_id for p in passages):
            held = {s: v for (q, s), v in final.items() if q == question and s.startswith(f"{doc_id}@")}
            if held:
                expected.documents.append(DocumentLabel(question, doc_id, max(held.values())))

    return expected


def without_lines(rows: Iterable[LabelConflict]) -> list[str]:
    """As text, to be sorted; of passages without lines, of which the definition has none."""
    return sorted(
        str({**r.to_dict(), **({"positive_line": 0, "negative_line": 0} if r.passage_id else {})})
        for r in rows
    )


TEXTS = ("Yes.", "yes. ", "No.", "It is so.", "IT  is so.", "Straße.", "STRASSE.")
PLACES = st.tuples(st.sampled_from("def"), st.integers(0, 5))


@given(
    texts=st.dictionaries(PLACES, st.sampled_from(TEXTS), min_size=1, max_size=14),
    cuts=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=5),
    by_id=st.dictionaries(st.tuples(st.sampled_from(["q1", "q2"]), PLACES), st.integers(0, 1), max_size=8),
    by_text=st.dictionaries(
        st.tuples(st.sampled_from(["q1", "q2"]), st.sampled_from(TEXTS)), st.integers(0, 1), max_size=3
    ),
    said=st.lists(st.sampled_from([None, *TEXTS]), min_size=8, max_size=8),
    order=st.randoms(use_true_random=False),
    same_text=st.booleans(),
    at_once=st.integers(1, 3),
)
def test_propagation_equals_its_definition(
    texts, cuts, by_id, by_text, said, order, same_text, at_once
) -> None:
    """Random documents, passages that overlap, labels by id, by text and by both, duplicates, other texts,
    unknown ids."""
    passages = []
    for doc_id in "def":
        inside = [sentence(doc_id, 50 * n, texts[doc_id, n]) for n in range(6) if (doc_id, n) in texts]
        passages += [
            passage(doc_id, n, *inside[first : first + size])
            for n, (first, size) in enumerate(cuts)
            if inside[first : first + size]
        ]

    if not passages:
        return

    by_fold: Mapping[tuple[str, str], tuple[str, int]] = {
        (q, fold(text)): (text, v) for (q, text), v in by_text.items()
    }
    labels: list[LabelRow] = [
        (q, f"{doc_id}@{50 * n}", text, v)
        for ((q, (doc_id, n)), v), text in zip(by_id.items(), said, strict=False)
    ]
    labels += [(q, None, text, v) for (q, _), (text, v) in by_fold.items()]
    labels += labels[::2]
    order.shuffle(labels)

    outcome, wanted = propagate(labels, passages, same_text, at_once), defined(labels, passages, same_text)
    assert sorted(outcome.sentences, key=str) == sorted(wanted.sentences, key=str)
    assert sorted(outcome.passages, key=str) == sorted(wanted.passages, key=str)
    assert sorted(outcome.documents, key=str) == sorted(wanted.documents, key=str)
    assert without_lines(outcome.conflicts) == without_lines(wanted.conflicts)
    assert (outcome.used, outcome.changed, outcome.repeated) == (wanted.used, wanted.changed, wanted.repeated)
    for rows in (outcome.sentences, outcome.passages, outcome.documents):
        assert [row.doc_id for row in rows] == sorted(row.doc_id for row in rows)
    assert outcome.sentences == sorted(
        outcome.sentences, key=lambda r: (r.doc_id, r.question_id, r.sentence_id)
    )

    assert outcome.passages == sorted(outcome.passages, key=lambda r: (r.doc_id, r.question_id, r.passage_id))
