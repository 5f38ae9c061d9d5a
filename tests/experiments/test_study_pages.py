"""The pages on the studies and on reproduction say what the code and the saved results say, and their
links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from docs import generate, reproduction, study_pages
from experiments.published_sets import SETS
from testing.listing import Listed, commands

DOCS = Path(generate.__file__).parent
PAGES = [DOCS / "reproduce.md", *sorted((DOCS / "studies").glob("*.md"))]
STUDIES = [study.name for study in commands(DOCS.parent / "experiments")]


def listed(takes: str, seconds: int | None = None) -> Listed:
    return Listed("made", "About.", (), takes, seconds, "")


def test_every_study_has_a_page_in_the_navigation_and_no_other_has() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert [path.stem for path in PAGES[1:]] == sorted([*STUDIES, "index"])
    assert study_pages.KEYS.keys() == set(STUDIES)
    assert re.findall(r": studies/(\w+)\.md\n", navigation) == ["index", *STUDIES]


def test_every_study_says_in_a_sentence_or_two_what_it_decided() -> None:
    texts = [study_pages.decided(name) for name in STUDIES]
    assert all(text.endswith(".") and len(text) < 260 for text in texts)
    assert 8 < texts.count("Nothing ships by it.") < 16


def test_a_study_that_does_not_say_it_is_refused() -> None:
    with pytest.raises(ValueError, match=r"experiments/corpus\.py has no DECIDED"):
        study_pages.decided("corpus")


def test_a_page_has_question_command_time_data_figures_and_decision() -> None:
    text = (DOCS / "studies/schedules.md").read_text(encoding="utf-8")
    saved = generate.saved("schedules")
    assert "**Question.** Drop schedules of a trained cascade" in text
    assert "; time on two cores: " in text and "[squad](../reproduce.md#squad)" in text
    assert f"| `schedules` | {saved['schedules']:,} |" in text and f"| `drops` | {saved['drops']} |" in text
    assert f"revision {saved['revision']}, {saved['date']}" in text
    assert text.partition("## What it decided\n\n")[2].startswith("Nothing ships by it.")


def test_a_figure_has_its_deviation_or_its_interval() -> None:
    result = {"map": 82.1683, "map_deviation": 1.0355}
    result |= {"a_difference": -4.5, "a_low": -6.25, "a_high": 0.0, "a_p": 0.02}
    assert study_pages.value(result, "map") == "82.17 ± 1.04"
    assert study_pages.value(result, "a_difference") == "-4.50 (-6.25 to 0.00, p = 0.0200)"
    assert doctest.testmod(study_pages).failed == 0


@pytest.mark.parametrize(
    ("takes", "seconds", "expected"),
    [
        ("hours of training, kept in --work", None, "hours of training"),
        ("five minutes; [--workers N]", None, "five minutes"),
        ("on a quiet machine", None, "not recorded"),
        ("an hour", 5_400, "an hour; the saved run took 1.5 hours"),
        ("an hour", 60, "an hour; the saved run took 1 minute"),
        ("", 90, "2 minutes"),
        ("", 5, "1 minute"),
    ],
)
def test_a_time_is_the_module_s_and_the_saved_run_s(takes: str, seconds: int | None, expected: str) -> None:
    assert study_pages.duration(listed(takes, seconds)) == expected


def test_the_page_on_reproduction_has_a_line_for_each_table() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    lines = [line.count("|") for line in text.splitlines() if "| `python -m " in line]
    assert len(lines) == 21 and set(lines) == {8}
    assert all(f'<a id="{name}"></a>`{name}`' in text for name in SETS)


def test_links_lead_to_pages_and_to_places_in_them() -> None:
    link = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
    links = 0
    for page in PAGES:
        for target, place in link.findall(page.read_text(encoding="utf-8")):
            path = page.parent / target if target else page
            anchor = f'<a id="{place}"></a>' if place else ""
            assert path.is_file() and anchor in path.read_text(encoding="utf-8"), (page.name, target, place)
            links += 1
    assert links > 150


def test_an_unknown_placeholder_is_an_error() -> None:
    assert reproduction.filled("{{time experiments.planner}}").endswith(" minutes")
    with pytest.raises(ValueError, match=r"not understood: \{\{size experiments\.planner\}\}"):
        reproduction.filled("{{size experiments.planner}}")
    with pytest.raises(ValueError, match="no module experiments/no_such"):
        reproduction.filled("{{time experiments.no_such}}")
