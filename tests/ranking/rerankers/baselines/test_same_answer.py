"""Groups of texts that say the same, and the pages of each."""

from __future__ import annotations

from itertools import permutations
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.baselines import same_answer
from answermill.ranking.rerankers.baselines.same_answer import ComparedText, SameAnswer, folded, groups
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList

LONG = "the bridge over the river was opened by the mayor on a rainy day in"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Paris is the capital of France.", "paris is the  capital of France"),  # folded
        ("He said: “It is 3.5 km.”", "He said it is 3 5 km"),
        ("巴黎是法国的首都。", "巴黎是法国的首都"),
        ("It was opened in 1932.", "It was opened in 1932, to surprise."),  # inside
        ("The Mississippi.", "Mississippi"),  # of one word
        ("", ""),
        (f"{LONG} May 1932.", f"{LONG} early May 1932."),  # near, with all names and numbers of one
    ],
)
def test_texts_that_say_the_same_are_one_group(a: str, b: str) -> None:
    assert groups([a, b]) == groups([b, a]) == [0, 0]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (f"{LONG} May 1932.", f"{LONG} May 1933."),  # another number
        (f"{LONG} May 1932.", f"{LONG} June 1932."),  # another name
        ("Paris.", "The capital of France, and its largest city, is Paris."),  # a small part
        ("She won the cup.", "He lost the match."),
        ("巴黎是法国的首都", "柏林是德国的首都"),
        ("...", "???"),
        ("", "Paris."),
        ("", "  "),
    ],
)
def test_texts_that_say_something_else_are_two(a: str, b: str) -> None:
    assert groups([a, b]) == groups([b, a]) == [0, 1]


def test_a_chain_of_near_texts_does_not_join_its_ends() -> None:
    words = [f"w{'abcdefghijklmnopqrstuvwxyz'[n]}" for n in range(26)]
    chain = [" ".join(words[n : n + 14]) for n in range(0, 13, 3)]  # each near the next alone
    assert groups(chain[:2]) == groups(chain[1:3]) == [0, 0] and groups([chain[0], chain[2]]) == [0, 1]
    assert groups(chain) == [0, 0, 2, 2, 4]


def test_a_text_joins_the_best_ranked_group_that_says_the_same() -> None:
    assert groups(["a b c d e", "c d e f g", "a b c d e f g"]) == [0, 1, 0]
    assert groups(["c d e f g", "a b c d e", "a b c d e f g"]) == [0, 1, 0]


def test_later_texts_change_no_group_before_them() -> None:
    texts = [f"{LONG} 1932", f"in {LONG} 1932", "something else", f"{LONG} 1933", "something  Else!"]
    for n in range(len(texts)):
        assert groups(texts)[:n] == groups(texts[:n])


SOME = ["aa", "bb", "cc", "dd", "Ee", "7", "8", "ee", "Constantinople"]
WORDS = st.lists(st.sampled_from(SOME), min_size=1, max_size=9).map(" ".join)


@given(st.lists(WORDS, max_size=14))
def test_looking_up_a_few_pairs_finds_what_comparing_all_finds(texts: list[str]) -> None:
    compared = list[int]()
    for n, text in enumerate(texts):
        firsts = (m for m in range(n) if compared[m] == m)
        compared.append(next((m for m in firsts if are_same(texts[m], text)), n))
    assert groups(texts) == compared


def are_same(a: str, b: str) -> bool:
    """By the definition. Equal texts stand for the first that is written so."""
    if folded(a) == folded(b):
        return True
    return ComparedText.of(a).says_the_same(ComparedText.of(b))


def ranked(*texts_and_pages: tuple[str, str]) -> RankedList:
    candidates = []
    for n, (text, url) in enumerate(texts_and_pages):
        sentence = Sentence(f"d{n}@0", 0, len(text), text)
        passage = Passage(f"d{n}#0", f"d{n}", url, "", 0, len(text), text, (sentence,))
        candidates.append(Candidate(Hit("q", "?", n + 1, 1.0, None, None, None, None, passage), sentence, n))
    return RankedList(Question("q", "?"), tuple(candidates))


def test_the_score_is_log_of_the_pages_and_ties_keep_their_order() -> None:
    asked = ranked(("One.", "a"), ("Two words", "b"), ("two words.", "b"), ("TWO words", "c"), ("Three", "d"))
    reranker: Reranker = SameAnswer()
    (ordered,) = reranker.rerank([asked])
    assert [c.position for c in ordered.candidates] == [1, 2, 3, 0, 4]
    assert [c.score for c in ordered.candidates] == [round(log(2), 6)] * 3 + [0.0, 0.0]


def test_without_addresses_documents_are_pages() -> None:
    (ordered,) = SameAnswer().rerank([ranked(("Two words", ""), ("two words", ""))])
    assert ordered.candidates[0].score == round(log(2), 6)


def test_the_score_does_not_depend_on_the_order_of_equal_texts() -> None:
    rows = [("Two words", "a"), ("two words", "b"), ("two Words!", "c"), ("three", "a")]
    for order in permutations(rows):
        scores = dict(zip(order, same_answer.page_scores(ranked(*order)), strict=True))
        assert [scores[row] for row in rows] == [log(3)] * 3 + [0]
