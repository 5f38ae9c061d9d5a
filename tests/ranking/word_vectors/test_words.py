from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.ranking.word_vectors.words import Lexicon, Words

SPACY = spacy.blank("en").tokenizer
WORDS = Words()
PIECES = [
    "Don't",
    "U.S.A.",
    "e.g.",
    "x.",
    "I.",
    "co.",
    "can't,",
    "gonna",
    "Mr.",
    ":)",
    "o.O",
    "10km.",
    "$5,000.",
    "a/b",
    "…",
    "St.;",
]


def by_spacy(text: str) -> list[str]:
    return [token.lower_ for token in SPACY(text) if not token.is_space]


def lexicon(*words: str) -> Lexicon:
    vectors = np.ones((1 + len(words), 2), np.float32)
    vectors[0] = 0
    return Lexicon(Embeddings(words, vectors))


def test_the_words_are_spacy_s_lower_cased() -> None:
    text = "Mr. O'Neill didn't pay $5.50 (in the U.S.), he said: “Never!”"
    assert WORDS.tokens(text) == by_spacy(text)
    assert WORDS.tokens(text)[:5] == ["mr.", "o'neill", "did", "n't", "pay"]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.from_regex(r"[A-Za-z]{1,6}[.,;:?!)]{0,2}", fullmatch=True),
            st.sampled_from(PIECES),
        )
    )
)
def test_any_text_has_the_words_that_spacy_gives(pieces: list[str]) -> None:
    text = " ".join(pieces)
    assert WORDS.tokens(text) == by_spacy(text)


def test_white_space_of_any_kind_is_no_word() -> None:
    assert WORDS.tokens("  a\t b\n\n c\u00a0d\u2009e \r\n") == ["a", "b", "c", "d", "e"]
    assert WORDS.tokens(" \n") == WORDS.tokens("") == []


def test_what_spacy_lists_is_split_as_listed() -> None:
    listed = [rule for rule in SPACY.rules if rule.split() == [rule]]
    assert len(listed) > 1_000
    for rule in listed:
        for text in (rule, f"{rule}.", f"{rule},"):
            assert WORDS.tokens(text) == by_spacy(text)


@pytest.mark.parametrize(
    "split", ["dev", *(pytest.param(split, marks=pytest.mark.nightly) for split in ("test", "train"))]
)
def test_every_wikiqa_sentence_has_the_words_that_spacy_gives(shared_data: Path, split: str) -> None:
    table = pq.read_table(shared_data / "wikiqa" / f"wikiqa-{split}.parquet")
    texts = {*table.column("sentence").to_pylist(), *table.column("question").to_pylist()}
    assert len(texts) > 2_000
    for text in texts:
        assert WORDS.tokens(text) == by_spacy(text)


def test_what_is_remembered_has_a_bound_and_forgetting_changes_nothing() -> None:
    words = Words(limit=3)
    text = "One (two) three, four. Five six one (two)"
    assert words.tokens(text) == by_spacy(text)
    assert len(words._known) <= 3


def test_a_tokenizer_serves_all_words_of_a_process_until_one_forgets() -> None:
    first, second = Words(limit=1), Words()
    before = first._tokenizer
    assert second._tokenizer is before
    first.tokens("One two")
    assert first._tokenizer is Words()._tokenizer is not before


def test_known_words_have_their_rows_and_unknown_ones_numbers_above_the_table() -> None:
    rows = lexicon("rome", "the").rows(["The Tiber, the Arno.", "Rome: Arno", ""])
    assert rows == [[2, 3, 4, 2, 5, 6], [1, 7, 5], []]


def test_a_lexicon_that_forgets_still_tells_equal_unknown_words_within_a_call() -> None:
    embeddings = Embeddings(("rome",), np.array([[0.0], [1.0]], np.float32))
    small = Lexicon(embeddings, limit=2)
    for _ in range(3):
        (first, second) = small.rows(["rome Tiber Arno Po", "Po Arno rome"])
        assert first[0] == second[2] == 1
        assert first[2:] == second[1::-1]
        assert len(set(first)) == 4
