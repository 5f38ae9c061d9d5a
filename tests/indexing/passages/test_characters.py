from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.passages.characters import (
    ALPHABETIC,
    DIGIT,
    LETTER,
    SPACE,
    UNSPACED,
    Counts,
    Extra,
    kinds,
)
from answermill.indexing.passages.passages import Splitter
from answermill.indexing.passages.sentences import decisions, sentence_spans
from answermill.schemas.scripts import UNSPACED as UNSPACED_LETTERS

SPLITTER = Splitter()
PIECES = [
    "Go",
    "cannot",
    "id",
    "7",
    "3.5",
    "né",
    "½",
    "𝟙x",
    "中文。",
    "中文字cannot",
    "ไทย฿",
    "_a_",
    *"  \n\u00a0.!",
    "  ",
    "Dr.",
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=30).map("".join)


@given(TEXTS)
def test_the_counts_of_a_span_are_those_of_the_expressions_for_one_text(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    counts = Counts(text, Extra(SPLITTER._extra))
    for start, end in sentence_spans(text):
        span = np.array([start]), np.array([end])
        if not counts.cut(*span)[0]:
            assert counts.tokens(*span).tolist() == [SPLITTER._bound(text[start:end])]


def test_extra_tokens_stand_where_their_words_do_in_any_line() -> None:
    extra = Extra({"cannot": 1, "dont": 1, "id": 1})
    text = "cannot\nécannot 5cannot_\nNo word.\nids id,dont cannot"
    starts = [0, 16, 37, 40, 45]
    assert extra.places(text) == [(start, 1) for start in starts]


@given(st.sampled_from(["中文です", "ไทย 中"]) | st.text())
def test_kinds_are_those_of_the_expressions(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    for character, kind in zip(text, kinds(text), strict=True):
        assert bool(kind & SPACE) == character.isspace()
        assert bool(kind & LETTER) == bool(re.match(r"[^\W\d_]", character))
        assert bool(kind & DIGIT) == bool(re.match(r"\d", character))
        assert bool(kind & ALPHABETIC) == character.isalpha()
        assert bool(kind & UNSPACED) == bool(re.match(f"[{UNSPACED_LETTERS}]", character))


WORDS = "Dr. Smith approx. Messrs. Sept. 3 U.S. The house. Why? No Yahoo! is 1. Intro J. A Ltd. and Oh... I"
QUOTED = 'Mars." Prof.) 1970s. Capt.” "Way ". No.\' Life.” 5m. Ps.) Why?" U.S." He 3) "1." (No.) Is.\' "A.'
MORE = "in 1999. 5 a.m. see figs. No. no. vs. calif. Calif. it. dogs. on [1]. ] . ) . re-sent. misses. It?"


@given(
    st.lists(
        st.sampled_from([*f"{WORDS} {MORE} {QUOTED}".split(), "(so.)", "e.g.", "(!)", "中。", "\n"]),
        max_size=20,
    ).map(" ".join),
    st.sampled_from(["", "en", "de", "es", "fr", "pl", "hy", "zz"]),
)
def test_plain_marks_end_sentences_where_the_rules_say_so(text: str, language: str) -> None:
    lines = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]
    ends = {0}
    for line, after in pairwise(lines):
        ends |= {line, *(end for end, rule in decisions(text, line, after - 1, language) if rule.ends)}
    bounds = sorted({*ends, len(text)})
    pieces = [text[a:b].strip() for a, b in pairwise(bounds)]
    cut = [text[a:b] for a, b in sentence_spans(text, language)]
    assert cut == [piece for piece in pieces if piece]
