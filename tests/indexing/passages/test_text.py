from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.passages.text import fold, fold_all, holds, normalise, one_line, visible


@given(st.text())
def test_normalised_text_has_one_form(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert all(line == " ".join(line.split()) != "" for line in normal.split("\n")) or normal == ""
    normal.encode("utf-8")


def test_normalising_keeps_lines_and_drops_what_is_not_seen() -> None:
    assert normalise("  a\t b\r\n\r\n\u200bc\u00add\x00\u2028e\u0301\u00a0f ") == "a b\ncd\né f"


def test_lone_surrogates_are_replaced_on_a_line_that_has_nothing_to_fold() -> None:
    assert normalise("a\ud800 b") == "a? b"


@given(st.text("ab \u200c\u200d\u0645\u0301\u093f\u1fef\U0001f469\ufe0f\u0300\uf900", max_size=12))
def test_normalised_text_with_joiners_has_one_form(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


HIDDEN = [
    "\0",
    "\x1b",
    "\x7f",
    "\x9b",
    "\u061c",
    "\u200e",
    "\u200f",
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
]


@pytest.mark.parametrize("character", HIDDEN, ids=lambda character: f"U+{ord(character):04X}")
def test_control_characters_and_marks_of_direction_are_dropped(character: str) -> None:
    for clean in (normalise, one_line, visible):
        assert clean(f"a{character}b {character}c") == "ab c"


@pytest.mark.parametrize("character", ["\t", "\n", "\r\n", "\x85", "\u2028", "\u2029"])
def test_line_ends_are_white_space_in_what_is_one_line(character: str) -> None:
    assert one_line(f"a{character}b") == visible(f"a{character}b") == "a b"


def test_joiners_stay_inside_words_that_are_spelt_with_them() -> None:
    persian, hindi, emoji = (
        "\u0645\u06cc\u200c\u0631\u0648\u062f",
        "\u0915\u094d\u200d\u0937",
        "\U0001f469\u200d\U0001f680 \U0001f937\u200d\u2642\ufe0f \U0001f642\u200d\u2194\ufe0f",
    )
    assert normalise(f"{persian} {hindi} {emoji}") == f"{persian} {hindi} {emoji}"
    assert normalise(f"\u200c{persian}\u200d Auf\u200clage {hindi}\u200d") == f"{persian} Auflage {hindi}"


@given(st.lists(st.text("aAZß Σς\xa0\t\n\x1c\x85\u3000İ", max_size=6) | st.none(), max_size=20))
def test_texts_are_folded_in_a_column_as_one_by_one(texts: list[str | None]) -> None:
    assert fold_all(pa.array(texts, pa.string())).to_pylist() == [
        None if text is None else fold(text) for text in texts
    ]


@pytest.mark.parametrize(
    ("text", "words", "there"),
    [
        ("he lives in paris now", "paris", True),
        ("he lives in parisian suburbs", "paris", False),
        ("by 1784.", "1784", True),
        ("它始于1784年", "1784", True),
        ("它始于17845年", "1784", False),
        ("他住在北京。", "北京", True),
        ("北京大学", "北京", True),
        ("his name is ann, not anna", "anna", True),
        ("no", "", False),
    ],
)
def test_words_stand_in_a_text_as_whole_ones_where_blanks_part_them(
    text: str, words: str, there: bool
) -> None:
    assert holds(text, words) is there
