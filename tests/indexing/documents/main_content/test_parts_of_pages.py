from __future__ import annotations

import pytest

from answermill.indexing.documents.main_content.belief import TWO_SENTENCES
from answermill.indexing.documents.main_content.hints import signs_of
from tests.indexing.documents.main_content.test_main_content import (
    ARTICLE,
    COMMENT,
    FIRST,
    LINES,
    SECOND,
    TEASER,
    THIRD,
    lines,
)


@pytest.mark.parametrize(
    "name",
    ["copyright-law", "related-work", "follow-up", "footNotes", "newsletter-archive", "comment-policy"],
)
def test_a_class_that_repeats_the_heading_between_prose_names_a_section(name: str) -> None:
    heading = "".join(f" {c.lower()}" if c.isupper() else c for c in name.replace("-", " ")).capitalize()
    section = f'<div class="{name}"><h2>{heading}</h2><p>{THIRD}</p></div>'
    assert lines(f"<main><p>{FIRST}</p>{section}<p>{SECOND}</p></main>") == [FIRST, heading, THIRD, SECOND]

    links = f'<div class="{name}"><h2>{heading}</h2><p><a href="/1">{TEASER}</a></p></div>'
    article = ARTICLE + f"<p>{FIRST}</p>" * 9
    assert TEASER not in "".join(lines(f"<main>{article}{links}<p>{SECOND}</p></main>"))


@pytest.mark.parametrize(
    "name", ["MsoFooter", "MsoHeader", "MsoCommentText", "admonition sidebar", "gdpr-text", "consent"]
)
def test_names_of_styles_notes_and_topics_cost_no_paragraph(name: str) -> None:
    note = f'<div class="{name}"><p>{THIRD}</p></div>'
    assert lines(f"<main><p>{FIRST}</p>{note}<p>{SECOND}</p></main>") == [FIRST, THIRD, SECOND]
    assert signs_of("p", ' class="MsoFooter footer"').words


def test_a_link_that_goes_through_the_lines_of_a_block_ends_in_none() -> None:
    text = f'<div><a href="/map">Map<br>{FIRST}<br><br>{SECOND}<br>{THIRD}</div><div>Imprint</div>'
    assert lines(text) == ["Map", FIRST, SECOND, THIRD]


def test_an_answer_may_be_a_hidden_paragraph_of_a_list() -> None:
    items = "".join(
        f"<li><h4>Phase {n}</h4><p hidden>{text}</p></li>" for n, text in enumerate((SECOND, THIRD))
    )
    assert lines(f"<main><p>{FIRST}</p><ul>{items}</ul></main>") == [
        FIRST,
        "Phase 0",
        SECOND,
        "Phase 1",
        THIRD,
    ]


def test_slots_show_what_stands_beside_their_shadow_root() -> None:
    root = (
        f'<template shadowrootmode="open"><article><p>{FIRST}</p><slot name="more">None</slot>'
        f"<slot><p>{COMMENT}</p></slot></article></template>"
    )
    page = f'<moon-page>{root}<p>{SECOND}</p>\n<p slot="more">{THIRD}</p></moon-page>'
    assert lines(page) == [FIRST, THIRD, SECOND]
    assert lines(f"<moon-page>{root}</moon-page><p>{SECOND}</p>")[:2] == [FIRST, "None"]


def test_what_fills_a_slot_takes_the_place_of_the_slots_and_shadow_roots_in_it() -> None:
    shadow = '<template shadowrootmode="open">'
    inner = f"<b-b>{shadow}<slot><p>{COMMENT}</p></slot></template><p>{THIRD}</p></b-b>"
    root = f'{shadow}<p>{FIRST}</p><slot>{inner}<slot name="more"></slot></slot></template>'
    more = f'<p slot="more">{COMMENT}</p>'

    assert lines(f"<main><a-a>{root}</a-a></main>") == [FIRST, THIRD]
    for beside in (f"<p>{SECOND}</p>{more}", f"{more}<p>{SECOND}</p>"):
        assert lines(f"<main><a-a>{root}{beside}</a-a></main>") == [FIRST, SECOND]


@pytest.mark.parametrize(
    "text",
    [
        "It ended. One",
        "It ended! ” One",
        ". . . 5",
        "来た。帰った",
        "आया। वह",
        "եկավ։ Նա",
        "ሄደ።እሱ",
        "a.b 。c",
    ],
)
def test_a_mark_between_words_may_end_a_sentence(text: str) -> None:
    assert TWO_SENTENCES.search(text)


@pytest.mark.parametrize(
    "text", ["It ended.", "a.b", "12.5 km, “a”. ", "来た。", "来た。 ”", ". ?! …", "", "a, b"]
)
def test_a_mark_at_an_edge_or_in_a_word_ends_none(text: str) -> None:
    assert not TWO_SENTENCES.search(text)


@pytest.mark.parametrize("signs", [". ", "。", "! ", "…", "。 "])
def test_a_line_of_signs_is_read_once(signs: str) -> None:
    """Each sign that read the others once more would take minutes."""
    assert not TWO_SENTENCES.search(signs * 100_000)
    assert TWO_SENTENCES.search(f"{signs * 100_000} 。a")


def test_a_text_goes_on_beside_the_element_that_has_most_of_it() -> None:
    both, last = f"{FIRST} {SECOND}", f"{SECOND} {THIRD}"
    body = f"<div>{ARTICLE}<p>{FIRST}</p><p>{SECOND}</p></div>"
    whole = [*LINES, FIRST, SECOND]

    assert lines(f"<p>{both}</p>{body}") == [both, *whole]
    assert lines(f'<article><div class="intro"><p>{both}</p></div>{body}</article>') == [both, *whole]
    sections = "".join(f"<section><h2>{name}</h2><p>{last}</p></section>" for name in ("Eclipses", "Tides"))
    assert lines(f"<main>{body}{sections}</main>") == [*whole, "Eclipses", last, "Tides", last]


@pytest.mark.parametrize(
    "beside",
    [
        f"<p>{FIRST}</p>",  # a caption, maybe
        f"<p>{FIRST} {SECOND}</p>",  # a notice, without a heading
        f'<h2>More</h2><p>{FIRST} {SECOND} <a href="/">Read</a></p>',
        f'<h3><a href="/">A comet</a></h3><p>{FIRST} {SECOND}</p>',
        f"<h2>One</h2><h2>Two</h2><h2>Three</h2><p>{FIRST} {SECOND}</p>",
    ],
)
def test_what_may_be_a_teaser_after_the_main_element_is_left_out(beside: str) -> None:
    body = f"<div>{ARTICLE}<p>{FIRST}</p><p>{SECOND}</p></div>"
    assert lines(f"<main>{body}{beside}</main>") == [*LINES, FIRST, SECOND]
