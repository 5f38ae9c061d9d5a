from __future__ import annotations

import pytest
from resiliparse.parse.lang import detect_fast

from answermill.indexing.documents import language
from answermill.indexing.documents.language import language_of

ENGLISH = (
    "The Moon is the only natural satellite of the Earth. It orbits at an average distance of 384,400 "
    "kilometres, "
    "about 30 times the diameter of the planet. Its gravity causes the tides of the oceans, and it "
    "lengthens the day a little."
)
PAGE = (
    f"{ENGLISH} Somebody who watches it from the coast for a month sees what a calendar is made of. It "
    "rises later each night, "
    "grows until it is a full disc, and wanes again; fishermen have planned their work by it since long "
    "before there were "
    "clocks, and the words for month and moon are close relatives in most languages of Europe. What nobody "
    "saw before the "
    "year 1959 is its far side, of which a probe then sent the first pictures home."
)
GERMAN = (
    "Der Mond braucht etwa einen Monat für seinen Weg um die Erde, und von seiner Schwerkraft kommen Ebbe "
    "und Flut."
)


def test_a_language_that_the_input_declares_counts_if_it_is_one() -> None:
    declared = ("de", "DE-at", "", "unknown", "english")
    assert [language_of(ENGLISH, each).code for each in declared] == ["de", "de", "en", "en", "en"]
    assert language_of("a b", "fr-CA") == ("fr", 1.0)
    assert language_of("a b", "nb-NO") == ("no", 1.0)  # as the detectors call it


SHORT = "It orbits at an average distance of 384,400 kilometres, natural satellite of the Earth."


def test_where_the_first_look_is_sure_there_is_no_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_identifier", None)
    distance, apart = _nearest(PAGE)
    assert distance <= 400 and apart >= 25
    assert language_of(PAGE, "") == ("en", 1.0)

    distance, apart = _nearest(GERMAN)  # a short text is farther from its language too
    assert 400 < distance <= 700 and apart >= 50
    assert language_of(GERMAN, "") == ("de", 1.0)


@pytest.mark.parametrize(
    ("text", "near", "apart"),
    [
        (GERMAN[:60], (700, 1_000), (50, 1_000)),
        (SHORT, (400, 700), (25, 50)),
    ],
)
def test_a_short_text_whose_language_is_less_clear_gets_a_second_look(
    text: str, near: tuple[int, int], apart: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    distance, difference = _nearest(text)
    assert near[0] < distance <= near[1] and apart[0] <= difference < apart[1]
    assert 0 < language_of(text, "").confidence < 1
    monkeypatch.setattr(language, "_identifier", None)
    with pytest.raises(TypeError):
        language_of(text, "")


@pytest.mark.parametrize(
    ("text", "code", "least", "most"),
    [
        # Far from all languages.
        ("Η Σελήνη είναι ο μοναδικός φυσικός δορυφόρος της Γης. " * 3, "el", 0.9, 1.0),
        (
            "月は地球の衛星で、およそ一ヶ月で地球を一周する。海の潮の満ち引きを起こす。",
            "ja",
            0.9,
            1.0,
        ),  # 'unknown' at first
        (
            "Anna Keller, Marc Dubois, Ingrid Larsen, Tomas Novak, Elena Petrova, Paul Meyer, Sofia Rossi, "
            "John Baker, "
            "Kate Miller, Lars Jensen, Maria Silva, Peter Smith and others wrote this report together.",
            "en",
            0.3,
            0.7,
        ),
        ("Model A 12 V 3.5 A 40 W\nModel B 24 V 1.5 A 36 W\nModel C 12 V 5.0 A 60 W", "", 0.0, 0.1),
        ("", "", 0.0, 0.1),
    ],
)
def test_where_the_first_look_is_not_sure_the_second_says_how_sure_it_is(
    text: str, code: str, least: float, most: float
) -> None:
    assert not _first_is(text, code)
    code_of_text, confidence = language_of(text, "")
    assert code in ("", code_of_text) and least <= confidence <= most and confidence == round(confidence, 4)


def test_the_second_look_reads_the_longest_lines() -> None:
    menu = "\n".join(f"Home {n} | Shop | About us" for n in range(500))
    assert not _first_is(f"{menu}\n{GERMAN * 20}", "de")
    assert language_of(f"{menu}\n{GERMAN * 20}", "").code == "de"
    assert language_of(menu, "").code != "de"


def _first_is(text: str, code: str) -> bool:
    """Whether the first look alone would say so, from near."""
    nearest, distance = detect_fast(text[:10_000])
    return bool(nearest == code and distance <= 400)


def _nearest(text: str) -> tuple[int, int]:
    """(distance of the language that the first look finds, by how much the next one is farther)."""
    (_, distance), (_, next_distance) = detect_fast(text, n_results=2)
    return distance, next_distance - distance
