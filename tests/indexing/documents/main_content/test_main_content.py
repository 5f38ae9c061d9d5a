from __future__ import annotations

import pytest

from answermill.indexing.documents import html_text
from answermill.indexing.documents.main_content.hints import Hint, hint_of
from answermill.indexing.passages.text import normalise

FIRST = "The Moon has four principal phases, and each of them takes about a week to go by before the next."
SECOND = "At new moon nobody sees it, because the side that the Sun shines on is then turned away from us."
THIRD = "At full moon all of that side is seen, and it rises at about the time at which the Sun goes down."
ARTICLE = f"<h1>Phases</h1><p>{FIRST}</p><p>{SECOND}</p><p>{THIRD}</p>"
LINES = ["Phases", FIRST, SECOND, THIRD]
TEASER = (
    "A comet that was last seen in the year 1680 comes back, and this is where you will be able to see it"
)
COMMENT = (
    "I was there as well, and it was a night that I shall not forget for as long as I live, said my aunt."
)


def lines(body: str, comments: bool = False) -> list[str]:
    text = html_text.load("blocks", comments)(f"<html><body>{body}</body></html>")[1]
    assert normalise(text) == text
    return text.splitlines()


def test_blocks_are_lines_in_their_order_and_cells_stand_beside_each_other() -> None:
    rest = (
        "<h2>Which\nthey are</h2><ul><li>New <b>m</b>oon<li>Full&nbsp;moon &amp; others</ul>"
        "<table><tr><th>Phase</th><th>Day</th></tr><tr><td>Full moon</td><td>15</td></tr></table>"
        "<div>One line<br>and\n another</div><pre>a\n  b</pre>"
    )

    assert lines(f"<div>{ARTICLE}{rest}<p>{FIRST}</p></div>") == [
        *LINES,
        "Which they are",
        "New moon",
        "Full moon & others",
        "Phase Day",
        "Full moon 15",
        "One line",
        "and another",
        "a",
        "b",
        FIRST,
    ]


def test_what_stands_around_the_article_is_left_out_though_no_name_says_what_it_is() -> None:
    menu = "<div><a href='/'>Home</a> <a href='/shop'>Shop</a></div><div>Today is Monday</div>"
    teasers = "".join(
        f"<div><h3><a href='/{n}'>Comet {n}</a></h3><div>{TEASER}.</div></div>" for n in range(9)
    )
    article = ARTICLE + f"<p>{FIRST}</p>" * 20
    assert lines(f"{menu}<div>{article}</div><div>{teasers}</div><div>All rights reserved</div>") == [
        *LINES,
        *[FIRST] * 20,
    ]


@pytest.mark.parametrize(
    "name",
    ["class='related-articles'", "id=siteFooter", "role='navigation'", "hidden", "style='display: none'"],
)
def test_elements_whose_names_say_that_they_are_something_else_are_left_out(name: str) -> None:
    assert lines(f"<article>{ARTICLE}<div {name}><p>{TEASER}.</p></div><p>{FIRST}</p></article>") == [
        *LINES,
        FIRST,
    ]


@pytest.mark.parametrize("name", ["class='sidebar'", "class='comments-open'", "id='share'", "hidden"])
def test_a_name_that_would_cost_a_page_its_prose_is_not_believed(name: str) -> None:
    assert lines(f"<div {name}>{ARTICLE}</div><p>Copyright 2020</p>") == LINES


def test_a_layouts_name_on_the_whole_page_says_nothing() -> None:
    page = f"<html><body class='sidebar widget hidden'><div>{ARTICLE}</div></body></html>"
    assert html_text.load("blocks", False)(page)[1].splitlines() == LINES


def test_a_lead_between_the_pages_heading_and_its_text_is_kept() -> None:
    body = f"<p>{FIRST}</p>" * 20
    head = (
        f"<p>{SECOND}</p><h1>Phases</h1><div>2 May</div><h2>{TEASER}, and at what time, and how long it "
        "will stay.</h2>"
    )
    lead = f"<div><p>{THIRD}</p></div>"
    assert lines(f"<div>{head}{lead}</div><div>{body}</div>") == [THIRD, *[FIRST] * 20]


def test_a_caption_does_not_interrupt_the_text() -> None:
    figure = f"<figure><img src=moon.png><figcaption>{TEASER}</figcaption></figure>"
    assert lines(f"<div>{ARTICLE}{figure}<p>{FIRST}</p></div>") == [*LINES, FIRST]


def test_comments_are_added_from_wherever_they_stand_without_the_form_below_them() -> None:
    form = (
        "<div class='comment-respond'><h3>Leave a reply</h3><p>Your address will not be published.</p></div>"
    )
    page = f"<div><div>{ARTICLE}</div></div><div id=comments><p>{COMMENT}</p><p>Me too.</p>{form}</div>"
    assert lines(page) == LINES
    assert lines(page, comments=True) == [*LINES, COMMENT, "Me too."]


def test_a_discussion_is_the_text_of_a_page_that_has_nothing_else() -> None:
    post = "<div class='comment'><p>{}</p><p>{}</p></div>"
    page = f"<p>Log in</p><div>{post.format(COMMENT, FIRST)}{post.format(SECOND, THIRD)}</div>"
    assert lines(page, comments=True) == [COMMENT, FIRST, SECOND, THIRD]
    assert not {COMMENT, FIRST, SECOND, THIRD} & set(lines(page))


def test_a_list_of_links_is_left_out_and_a_link_between_paragraphs_is_not() -> None:
    link = "<p><a href='/x'>The phases in pictures</a></p>"
    few = f"<div>{ARTICLE}{link}<p>{FIRST}</p></div>"
    many = f"<div>{ARTICLE}{link * 3}<p>{FIRST}</p></div>"
    last = f"<div>{ARTICLE}<p>{FIRST}</p>{link}</div>"
    assert lines(few) == [*LINES, "The phases in pictures", FIRST]
    assert lines(many) == lines(last) == [*LINES, FIRST]


def test_a_list_of_references_does_not_take_the_articles_place() -> None:
    references = "".join(f"<li>{n}. {SECOND} {THIRD} Journal of Moons, volume {n}.</li>" for n in range(11))
    assert lines(f"<div><div>{ARTICLE}</div><div><ol>{references}</ol></div></div>")[:4] == LINES


def test_prose_in_a_script_less_language_of_few_letters_is_prose() -> None:
    paragraph = "月亮有四个主要的月相,每个月相大约持续一个星期,然后进入下一个月相。"
    teaser = "<div><a href='/'>更多</a></div><div>今天</div>"
    assert lines(f"{teaser}<div><p>{paragraph}</p><p>{paragraph}</p></div>{teaser}") == [paragraph] * 2


def test_a_page_without_prose_keeps_its_short_lines_but_not_its_menu() -> None:
    menu = "<nav>Home Shop</nav>"
    assert lines(f"{menu}<h1>Phases</h1><p>There are four.</p><footer>Copyright 2020</footer>") == [
        "Phases",
        "There are four.",
    ]
    assert lines(menu) == ["Home Shop"]


@pytest.mark.parametrize(
    "body",
    [
        "<xmp></div></div></p><b",
        "<plaintext></body><a <a <a",
        "</p></div></td>",
        "<frameset><frame></frameset>",
        "<!-- <p> --><!-->",
        "<p title='a<b>c'>",
        "<svg><p>",
        "<math><mi>x</mi><annotation>y</annotation></math>",
    ],
)
def test_odd_markup_ends_no_article(body: str) -> None:
    assert lines(f"<div>{ARTICLE}</div>{body}")[:4] == LINES


def test_names_are_taken_apart_into_words() -> None:
    assert (
        hint_of(' class="siteFooter"')
        == hint_of(' id="site-footer"')
        == hint_of(" class='x'\tid=\"site_footer\"")
    )
    assert hint_of(' class="siteFooter"') == Hint.SURROUNDING
    assert hint_of(' class="barefooted navy adjective"') == hint_of(' href="/comments"') == Hint.NONE
    assert (
        hint_of(' class="share comment-list"') == Hint.COMMENT
        and hint_of(' class="comment-form"') == Hint.SURROUNDING
    )

    assert hint_of(' class="nav" style="x:y;DISPLAY : none"') == Hint.SURROUNDING
    assert hint_of(' class="nav" style="color:red;display: none"') == Hint.HIDDEN
