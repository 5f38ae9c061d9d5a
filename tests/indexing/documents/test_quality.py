from __future__ import annotations

import pytest

from indexing.documents.quality import PRESETS, PageText, PresetName, refusal

NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
GOOD = "\n".join(
    f"The Moon of month {a} is seen {b} times from the coast, and that is more than {a} fishers of {b} islands have counted."
    for a, b in zip(NUMBERS, reversed(NUMBERS), strict=True)
)
WORDS = [f"{a}{b}" for a in NUMBERS for b in NUMBERS]
"""Words that do not repeat."""


def plain(words: int) -> str:
    return "the of " + " ".join(WORDS[:words])


def test_a_page_of_prose_keeps_all_presets() -> None:
    assert refusal(plain(140) + ".\n" + plain(9) + ", and so it is. Yes, it is! Is it?", "en", ["c4", "fineweb"]) is None
    assert refusal(plain(140), "en", ["gopher"]) is None


@pytest.mark.parametrize(
    ("preset", "rule", "text", "figure"),
    [
        ("c4", "lorem_ipsum", GOOD + " Lorem Ipsum dolor", "lorem ipsum"),
        ("c4", "curly_bracket", "function() { return }\n" + GOOD, "'{'"),
        ("c4", "sentences", "One sentence is not enough here.\nAnd another.\nno end of a line here at all", "1 sentences"),
        ("c4", "sentences", "Please enable Javascript to see this.\n" * 5, "0 sentences"),
        ("gopher", "words", plain(40), "42 words; at least 50"),
        ("gopher", "word_length", "the of " + "ab " * 60, "characters in a word"),
        ("gopher", "symbols", plain(60) + " # # # # # # #", "hash signs"),
        ("gopher", "bullets", "\n".join(f"- {word} the of" for word in WORDS[:60]), "have a bullet"),
        ("gopher", "ellipses", "\n".join(f"the of {word}…" for word in WORDS[:9]) + "\n" + plain(140), "end with …"),
        ("gopher", "alphabetic", plain(60) + " 12345" * 20, "have a letter"),
        ("gopher", "stop_words", " ".join(WORDS[:60]), "0 of eight"),
        ("gopher", "repeated_lines", "\n".join([plain(140), *["again"] * 3]), "of the lines came before"),
        ("gopher", "repeated_runs", plain(60) + " copper violin" * 30, "run of 2 words"),
        ("fineweb", "line_ends", "\n".join(WORDS[:60]), "end as a sentence does"),
        ("fineweb", "repeated_lines", (GOOD + "\n") * 2, "came before"),
        ("fineweb", "short_lines", "A short line.\nAnother one.\nAnd a third one.", "of the lines are short"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused_by_its_name(preset: PresetName, rule: str, text: str, figure: str) -> None:
    wrong = PRESETS[preset][rule](PageText(text, "en"))
    assert figure in wrong
    assert refusal(text, "en", [preset]) == (f"{preset}_{rule}", wrong)


def test_repeated_runs_count_each_character_once() -> None:
    page = PageText("a b c d e x a b c d e a b c d e", "en")
    assert page.share_of_repeated_runs(5) == 10 / 16
    assert page.share_of_top_run(5) == 15 / 16
    assert PageText("a b", "en").share_of_top_run(5) == PageText("", "en").share_of_repeated_runs(5) == 0


def test_english_words_are_asked_of_english_pages_only() -> None:
    text = " ".join(WORDS[:60])
    assert refusal(text, "de", ["gopher"]) is None
    assert refusal("", "en", []) is None
