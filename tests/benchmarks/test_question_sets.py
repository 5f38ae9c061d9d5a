"""Who is asked, what is an answer, and what is read back of the lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import to_passages
from answermill.schemas.labels import LabelledCandidate
from experiments import cascade_trainings
from experiments.long_lists import judged
from experiments.question_sets import draw, sources
from experiments.question_sets.draw import apart_from, dev_set, kind, leaked
from experiments.question_sets.gold import Asked, canonical, drawn, holds, is_answer
from experiments.question_sets.learnable import asked_in_tests, learnable
from experiments.train_lists import MOST_RIGHT, without_scraps, without_test_answers
from testing.smoke_data import small_data

ASKED = Asked(
    "wikiqa:Q1",
    "When was the tower built?",
    "Tower",
    (("wikiqa:D1", "It was built in 1889 ."),),
    ("in 1889",),
)


@pytest.fixture(scope="module")
def data(shared_data: Path) -> Path:
    return small_data(shared_data.resolve())


def test_a_sentence_is_an_answer_if_it_holds_one_or_is_half_of_one() -> None:
    assert is_answer("so, as it says, it was built in 1889.", ["it was built in 1889."])
    assert is_answer("was built in", ["it was built in 1889."])
    assert not is_answer("in 1889.", ["it was built in 1889."])
    assert not is_answer("it was painted in 1889.", ["it was built in 1889."])


def test_a_short_answer_is_held_as_whole_words() -> None:
    assert holds("it opened in 1889, in spring", "in 1889") and holds("u.s. army", "u.s.")
    assert not holds("it opened within 1889 days", "in 1889") and not holds("anything", "")


def test_strict_and_lenient_are_of_the_gold_document() -> None:
    other = "They finished in  1889."
    assert ASKED.strict("wikiqa:D1", "It was built in 1889 .") and not ASKED.strict(
        "wikiqa:D2", "It was built in 1889 ."
    )
    assert ASKED.lenient("wikiqa:D1", other) and not ASKED.strict("wikiqa:D1", other)
    assert not ASKED.lenient("wikiqa:D2", other)
    assert not replace(ASKED, strings=()).lenient("wikiqa:D1", other)


def test_a_draw_depends_on_no_order_and_changes_by_one() -> None:
    names = [f"q{n}" for n in range(100)]
    ten = drawn(names, 10)
    assert drawn(reversed(names), 10) == ten and len(ten) == 10 and ten != names[:10]
    assert len(set(drawn([*names, "q100"], 10)) - set(ten)) <= 1
    assert drawn(names, 1_000) == sorted(names)


def test_what_is_apart_from_the_test_questions() -> None:
    is_apart = apart_from([ASKED])
    elsewhere = replace(ASKED, text="How high?", title="Bridge", gold=(("wikiqa:D3", "High."),))
    assert is_apart(elsewhere)
    assert not is_apart(replace(elsewhere, text="when was the  tower built?"))
    assert not is_apart(replace(elsewhere, gold=ASKED.gold))
    assert is_apart(replace(elsewhere, title="Tower"))  # another section, or page, of the same set
    assert not is_apart(replace(elsewhere, title="Tower", gold=(("qed:Tower", "High."),)))


def test_dev_and_test_share_no_question_and_no_document(data: Path) -> None:
    dev, test = dev_set(data), draw.test_set(data)
    assert (
        {each.source for each in dev} == {each.source for each in test} == {"wikiqa", "squad", "selqa", "qed"}
    )
    assert not {canonical(each.text) for each in dev} & {canonical(each.text) for each in test}
    assert not {doc for each in dev for doc in each.documents} & {
        doc for each in test for doc in each.documents
    }
    assert not {each.question_id for each in dev} & leaked(data) and len(leaked(data)) > 5


def test_every_gold_document_is_in_the_corpus(data: Path) -> None:
    rows = list(sources.documents(data))
    ids = {row["doc_id"] for row in rows}
    assert len(ids) == len(rows) and {kind(key) for key in ids} >= {
        "wikiqa",
        "selqa",
        "squad-dev",
        "squad-train",
        "qed",
    }
    for each in dev_set(data) + draw.test_set(data):
        assert each.documents <= ids


def test_questions_without_an_answer_have_their_page_and_nothing_in_it_is_right(data: Path) -> None:
    ids = {row["doc_id"] for row in sources.documents(data)}
    dev, test = (draw.questions(data, f"{name}-without-answer") for name in ("dev", "test"))
    assert {each.source for each in test} == {"wikiqa", "squad"}
    for each in dev + test:
        assert each.documents and each.documents <= ids and not each.gold
        assert not each.lenient(next(iter(each.documents)), "any sentence")

    others = draw.questions(data, "test") + test
    assert not {doc for each in dev for doc in each.documents} & {
        d for each in others for d in each.documents
    }
    answered = {each.question_id for name in ("dev", "test") for each in draw.questions(data, name)}
    assert not answered & {each.question_id for each in dev + test}


def test_a_row_of_a_set_is_unanswered_if_none_of_its_question_s_rows_is_right() -> None:
    rows = [
        {"question_id": key, "question": f"{key}?", "document_title": "The_tower", "label": label}
        for key, label in (("a", 0), ("b", 0), ("a", 1), ("b", 0))
    ]
    [only] = sources.without_answer("set", rows, lambda row: f"doc:{row['question_id']}")
    assert (only.question_id, only.text, only.title) == ("set:b", "b?", "The tower")
    assert only.documents == {"doc:b"} and only.gold == ()


def test_a_list_names_its_answers() -> None:
    texts = ["It was built in 1889 .", "It opened in 1889.", "It is high."]
    rows = [
        LabelledCandidate("wikiqa:Q1", "When?", f"c{n}", "wikiqa:D1", "Tower", n, text, 0)
        for n, text in enumerate(texts)
    ]
    judged_list = judged(ASKED, to_passages(ranked_list(rows)))
    assert [c.text for c in judged_list.ranked.candidates] == texts and len(
        judged_list.passages.candidates
    ) == 1
    assert judged_list.gold == {"c0"} and judged_list.lenient == {"c0", "c1"}


def test_training_shares_nothing_with_the_sets_that_choose_and_measure(data: Path, monkeypatch) -> None:
    monkeypatch.setattr(draw, "DEV", dict.fromkeys(draw.DEV, 1))
    monkeypatch.setattr(draw, "ARTICLES", dict.fromkeys(draw.ARTICLES, 1))
    train = draw.train_set(data)
    is_apart = apart_from(
        [*(each for members in draw.test_pool(data).values() for each in members), *dev_set(data)]
    )
    assert (
        len(train) > 3 and {each.source for each in train} == {"squad", "qed"} and all(map(is_apart, train))
    )

    monkeypatch.setattr(draw, "leaked", lambda data: {train[0].question_id})
    monkeypatch.setattr(draw, "test_answers", lambda data: {canonical(train[1].gold[0][1])})
    assert draw.train_set(data) == train[2:]
    monkeypatch.setattr(draw, "TRAIN", {"squad": 1, "qed": 0})
    (learnt,) = draw.train_set(data)
    more = draw.more_set(data)
    assert more and more == [each for each in train[2:] if each.source == "squad" and each != learnt]


def test_no_list_to_learn_from_has_an_answer_of_a_test_question() -> None:
    texts = ["The  Tower is high.", "It is wide."]
    rows = [LabelledCandidate("q", "?", f"c{n}", "d", "", n, text, n) for n, text in enumerate(texts)]
    assert without_test_answers(rows, frozenset({canonical("the tower is high.")})) == [
        replace(rows[1], position=0)
    ]


def test_an_answer_that_stands_all_over_a_document_teaches_nothing() -> None:
    rows = [
        LabelledCandidate(question, "?", f"c{n}", "d", "", n, "text", int(n < right))
        for question, right in (("a", MOST_RIGHT), ("b", MOST_RIGHT + 1))
        for n in range(MOST_RIGHT + 2)
    ]
    assert without_scraps(rows) == [row for row in rows if row.question_id == "a"]


def test_nothing_that_is_learnt_from_tells_an_answer_of_a_test_question(data: Path) -> None:
    """Not its words, and no sentence that answers one, whatever it is a candidate for."""
    (asked, *_) = asked_in_tests(data)
    (_, right), *_ = asked.gold
    rows = [
        LabelledCandidate("a", asked.text.upper(), "c0", "d", "", 0, "Free text.", 1),
        LabelledCandidate("b", "What else?", "c0", "d", "", 0, right.upper(), 0),
        LabelledCandidate("b", "What else?", "c1", "d", "", 1, "Free text.", 1),
        LabelledCandidate("c", "Whatever?", "c0", "d", "", 0, right, 1),
        LabelledCandidate("c", "Whatever?", "c1", "d", "", 1, "Free text.", 0),
    ]
    assert learnable(data, [rows[:1], rows[1:3], rows[3:]]) == [[replace(rows[2], position=0)]]


def test_a_transfer_shares_no_question_and_no_answer_with_the_test_sets(data: Path, monkeypatch) -> None:
    asked, answers = {canonical(each.text) for each in asked_in_tests(data)}, draw.test_answers(data)
    for name in cascade_trainings.FILES:
        lists = cascade_trainings.transfer_lists(data, name)
        assert lists and all(any(row.label for row in rows) for rows in lists)
        assert asked.isdisjoint(canonical(rows[0].question) for rows in lists)
        assert answers.isdisjoint(canonical(row.text) for rows in lists for row in rows)
        leak = lists[0][0].question_id
        with monkeypatch.context() as leaking:
            leaking.setattr(draw, "leaked", lambda data, leak=f"{name}:{leak}": {leak})
            assert leak not in {rows[0].question_id for rows in cascade_trainings.transfer_lists(data, name)}
