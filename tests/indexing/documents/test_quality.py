from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.documents.quality import PRESETS, PageText, PresetName, refusal
from answermill.indexing.passages.text import normalise

NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
GOOD = "\n".join(
    f"The Moon of month {a} is seen {b} times from the coast, and that is more than {a} fishers of {b} "
    "islands have counted."
    for a, b in zip(NUMBERS, reversed(NUMBERS), strict=True)
)
WORDS = [f"{a}{b}" for a in NUMBERS for b in NUMBERS]
"""Words that do not repeat."""


def plain(words: int) -> str:
    return "the of " + " ".join(WORDS[:words])


def test_a_page_of_prose_keeps_all_presets() -> None:
    assert (
        refusal(
            PageText(plain(140) + ".\n" + plain(9) + ", and so it is. Yes, it is! Is it?", "en"),
            ["c4", "fineweb"],
        )
        is None
    )
    assert refusal(PageText(plain(140), "en"), ["gopher"]) is None


@pytest.mark.parametrize(
    ("preset", "rule", "text", "figure"),
    [
        ("c4", "lorem_ipsum", GOOD + " Lorem Ipsum dolor", "lorem ipsum"),
        ("c4", "curly_bracket", "function() { return }\n" + GOOD, "'{'"),
        (
            "c4",
            "sentences",
            "One sentence is not enough here.\nAnd another.\nno end of a line here at all",
            "1 sentences",
        ),
        ("c4", "sentences", "Please enable Javascript to see this.\n" * 5, "0 sentences"),
        ("gopher", "words", plain(40), "42 words; at least 50"),
        ("gopher", "word_length", "the of " + "ab " * 60, "characters in a word"),
        ("gopher", "symbols", plain(60) + " # # # # # # #", "hash signs"),
        ("gopher", "bullets", "\n".join(f"- {word} the of" for word in WORDS[:60]), "have a bullet"),
        (
            "gopher",
            "ellipses",
            "\n".join(f"the of {word}…" for word in WORDS[:9]) + "\n" + plain(140),
            "end with …",
        ),
        ("gopher", "alphabetic", plain(60) + " 12345" * 20, "have a letter"),
        ("gopher", "stop_words", " ".join(WORDS[:60]), "0 of eight"),
        ("gopher", "repeated_lines", "\n".join([plain(140), *["again"] * 3]), "of the lines came before"),
        ("gopher", "repeated_runs", plain(60) + " copper violin" * 30, "run of 2 words"),
        ("fineweb", "line_ends", "\n".join(WORDS[:60]), "end as a sentence does"),
        ("fineweb", "repeated_lines", (GOOD + "\n") * 2, "came before"),
        ("fineweb", "short_lines", "A short line.\nAnother one.\nAnd a third one.", "of the lines are short"),
    ],
)
def test_a_page_that_breaks_a_rule_is_refused_by_its_name(
    preset: PresetName, rule: str, text: str, figure: str
) -> None:
    page = PageText(text, "en")
    wrong = PRESETS[preset][rule](page)
    assert figure in wrong
    assert refusal(page, [preset]) == (f"{preset}_{rule}", wrong)


def test_repeated_runs_count_each_character_once() -> None:
    page = PageText("a b c d e x a b c d e a b c d e", "en")
    assert page.share_of_repeated_runs(5) == 10 / 16
    assert page.share_of_top_run(5) == 15 / 16
    assert PageText("a b", "en").share_of_top_run(5) == PageText("", "en").share_of_repeated_runs(5) == 0


def test_english_words_are_asked_of_english_pages_only() -> None:
    text = " ".join(WORDS[:60])
    assert refusal(PageText(text, "de"), ["gopher"]) is None
    assert refusal(PageText("", "en"), []) is None


def test_metrics_are_counted_in_the_text() -> None:
    text = "# The Moon of the Earth…\nIt is to be seen.\nIt is to be seen.\n12 345 ..."
    metrics = PageText(text).metrics()
    words, characters = len(text.split()), len(text.replace(" ", "").replace("\n", ""))
    # The, of, to, be.
    assert (metrics.words, metrics.word_length, metrics.stop_words) == (words, characters / words, 4)
    assert metrics.symbols == 3 / words and metrics.alphabetic == (words - 4) / words
    assert (metrics.line_ends, metrics.short_lines) == (3 / 4, 1.0)
    assert metrics.repeated_lines == len("It is to be seen.") / len(text)


@given(st.lists(st.sampled_from(["The", "bé", "4.", "#", "ﬁ", "中文", "𝟙", "to,", "of", "\n"]), max_size=12))
def test_figures_of_words_are_those_of_the_words_between_blanks(words: list[str]) -> None:
    text = normalise(" ".join(words))
    page, known = PageText(text), {"the", "be", "to", "of", "and", "that", "have", "with"}
    assert (page.spaced_words, page.letters) == (len(page.words), sum(map(len, page.words)))
    assert page.stop_words == len(known & {word.lower() for word in page.words})
    with_letter = [word for word in page.words if any(map(str.isalpha, word))]
    assert page.alphabetic == len(with_letter) / max(1, len(page.words))


def test_a_text_without_words_has_metrics() -> None:
    assert set(PageText("").metrics().to_dict().values()) == {0}


def test_words_are_counted_in_scripts_without_blanks_too() -> None:
    assert [PageText(text).word_count for text in ("two words", "月は地球の衛星", "")] == [2, 3, 0]


@pytest.mark.parametrize(
    ("preset", "rule", "column", "text"),
    [
        ("gopher", "word_length", "word_length", "the of " + "ab " * 60),
        ("gopher", "symbols", "symbols", plain(60) + " # # # # # # #"),
        ("gopher", "alphabetic", "alphabetic", plain(60) + " 12345" * 20),
        ("fineweb", "line_ends", "line_ends", "\n".join([*WORDS[:60], "So."])),
        ("fineweb", "short_lines", "short_lines", "A short line.\nAnother one.\nAnd a third one."),
        ("fineweb", "repeated_lines", "repeated_lines", (GOOD + "\n") * 2),
    ],
)
def test_a_rule_names_the_figure_of_its_column(preset: PresetName, rule: str, column: str, text: str) -> None:
    page = PageText(text, "en")
    figure = getattr(page.metrics(), column)
    assert figure != getattr(PageText(plain(140)).metrics(), column)
    assert PRESETS[preset][rule](page).startswith(f"{figure:.4g} ")
