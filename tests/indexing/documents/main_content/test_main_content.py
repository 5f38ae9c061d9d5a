from __future__ import annotations

import pytest

from answermill.indexing.documents import html_text
from answermill.indexing.documents.main_content.hints import Hint, Signs, signs_of
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


def hint(attributes: str) -> Hint:
    signs = signs_of("div", attributes)
    return Hint.HIDDEN if signs.hidden else max((word.hint for word in signs.words), default=Hint.NONE)


def test_names_are_taken_apart_into_words() -> None:
    assert hint(' class="siteFooter"') == hint(' id="site-footer"') == hint(' class="x" id="site_footer"')
    assert hint(' class="siteFooter"') == Hint.SURROUNDING
    assert hint(' class="barefooted navy adjective"') == hint(' href="/comments"') == Hint.NONE
    assert hint(' class="share comment-list"') == Hint.COMMENT
    assert hint(' class="comment-form"') == Hint.SURROUNDING

    assert hint(' class="nav" style="x:y"') == Hint.SURROUNDING
    assert hint(' class="nav" style="x:y;DISPLAY : none"') == Hint.HIDDEN
    assert hint(' class="nav" style="color:red;display: none"') == Hint.HIDDEN
    assert hint(' class="a" style="color:red; visibility:hidden"') == Hint.HIDDEN


@pytest.mark.parametrize(
    "attributes",
    [
        ' aria-label="A hidden path"',
        ' title="the hidden=garden"',
        ' alt="a hidden="',
        ' data-style="display:none"',
        ' data-class="sidebar"',
        ' data-role="navigation"',
        ' aria-hidden="false"',
        ' class="overflow-hidden"',
        ' class="prose hidden md:block"',
        ' class="md:hidden"',
        ' hidden="until-found"',
        ' class="body-with-sidebar no-menu"',
    ],
)
def test_the_value_of_an_attribute_hides_nothing(attributes: str) -> None:
    assert signs_of("div", attributes) == Signs()


def section(name: str, heading: str, text: str, tag: str = "section") -> str:
    return f"<{tag} {name}><h2>{heading}</h2><p>{text}</p></{tag}>"


WORDS = """
    ads author-info banner carousel comments consent cookies discussion footer hidden login menu navigation
    newsletters pagination player popular previous-versions related replies share sponsors tags"""


@pytest.mark.parametrize("tag", ["section", "div"])
@pytest.mark.parametrize(
    "word",
    WORDS.split(),
)
def test_a_section_whose_id_is_a_word_of_its_heading_stays(word: str, tag: str) -> None:
    heading = word.replace("-", " ").capitalize()
    parts = [
        section("id=moon", "Moon", FIRST, tag),
        section(f"id={word}", heading, SECOND, tag),
        section("id=day", "Day", THIRD, tag),
    ]
    rest = lines(f"<main><h1>Guide</h1>{''.join(parts)}</main>")
    assert rest == ["Guide", "Moon", FIRST, heading, SECOND, "Day", THIRD]


def test_an_anchors_name_costs_no_heading_and_no_paragraph() -> None:
    body = f"<h2 id=cookies>Cookies</h2><p id=comments>{SECOND}</p>"
    assert lines(f"<div>{ARTICLE}{body}<p>{FIRST}</p></div>") == [*LINES, "Cookies", SECOND, FIRST]


@pytest.mark.parametrize("name", ["player-profile", "lunch-menu", "cookies-info"])
def test_a_class_that_is_a_topic_costs_no_prose_between_prose(name: str) -> None:
    parts = [section("", "Moon", FIRST), section(f"class={name}", "It", SECOND), section("", "Day", THIRD)]
    assert SECOND in lines(f"<main>{''.join(parts)}</main>")
    widget = f"<aside class={name}><p>{SECOND}</p></aside>"
    assert SECOND not in lines(f"<main>{ARTICLE.replace(SECOND, FIRST)}{widget}</main>")


def test_a_section_about_comments_between_prose_stays() -> None:
    section = f"<section id=comments><h2>Comments</h2><p>{SECOND}</p></section>"
    assert lines(f"<main><p>{FIRST}</p>{section}<p>{THIRD}</p></main>") == [FIRST, "Comments", SECOND, THIRD]


def test_a_section_of_comments_is_one_though_its_heading_says_so() -> None:
    comments = f"<section id=comments><h2>Comments</h2><p>{COMMENT}</p></section>"
    assert COMMENT not in lines(f"<article>{ARTICLE}</article>{comments}")


QUESTION = "How long is the Moon dark?"


@pytest.mark.parametrize("closed", ["hidden", "style='display:none'", "aria-hidden=true", "class='a hidden'"])
@pytest.mark.parametrize(
    "panel",
    [
        f"<h2>{QUESTION}</h2><div {{}}><p>{SECOND}</p></div>",
        f"<h3>{QUESTION}</h3><p {{}}>{SECOND}</p>",
        f"<button aria-expanded=false>{QUESTION}</button><div {{}}><p>{SECOND}</p></div>",
        f"<h3><button aria-expanded=false>{QUESTION}</button></h3><div {{}}><p>{SECOND}</p></div>",
        f"<dl><dt><button>{QUESTION}</button></dt><dd {{}}>{SECOND}</dd></dl>",
        f"<a href='#a1'>{QUESTION}</a><div id=a1 {{}}><p>{SECOND}</p></div>",
        f"<div>{QUESTION}</div><div role=tabpanel {{}}><p>{SECOND}</p></div>",
        f"<button>{QUESTION[:-1]}</button><div {{}}><p>{SECOND}</p></div>",
        f"<div>{QUESTION[:-1]}</div><div itemprop=acceptedAnswer {{}}><p>{SECOND}</p></div>",
    ],
)
def test_a_closed_panel_with_an_answer_stays_with_its_question(panel: str, closed: str) -> None:
    rest = lines(f"<main><h1>Phases</h1><p>{FIRST}</p>{panel.format(closed)}<p>{THIRD}</p></main>")
    asked = QUESTION if QUESTION in rest else QUESTION[:-1]
    assert [line for line in rest if line != "Phases"] == [FIRST, asked, SECOND, THIRD]


def test_what_is_hidden_and_opened_by_no_text_is_left_out_and_so_are_a_menu_and_its_button() -> None:
    menu = f"<button aria-expanded=false aria-controls=m>Menu</button><nav id=m hidden><p>{TEASER}</p></nav>"
    modal = f"<a href='#mod'>Sign up</a><div id=mod class=modal hidden><p>{TEASER}</p></div>"
    assert lines(f"<div>{menu}{ARTICLE}<div hidden><p>{TEASER}</p></div>{modal}<p>{FIRST}</p></div>") == [
        *LINES,
        "Sign up",
        FIRST,
    ]


@pytest.mark.parametrize(
    "page",
    [
        f"<p>{FIRST} <a href='/map'>Map</p><p>{SECOND}</p><p>{THIRD}</p>",
        f"<a href='/'>Map<p>{FIRST}</p><p>{SECOND}</p><p>{THIRD}</p>",
        f"<h1><a href='/'>Map</h1><p>{FIRST}</p><p>{SECOND}</p><p>{THIRD}</p>",
        f"<div>{FIRST} <a href='/map'>Map</div><div>{SECOND}</div><div>{THIRD}</div>",
        f"<div><a href='/map'>Map<br>{FIRST}<br><br>{SECOND}<br><br>{THIRD}</div>",
        f"<pre><a href='/map'>Map\n{FIRST}\n\n{SECOND}\n\n{THIRD}</pre>",
    ],
)
def test_a_link_that_is_never_closed_costs_no_paragraph(page: str) -> None:
    text = "\n".join(lines(page))
    assert FIRST in text and SECOND in text and THIRD in text


def test_a_teaser_whose_heading_and_text_are_one_link_is_left_out() -> None:
    teasers = "".join(
        f"<div><h3><a href='/{n}'>Comet {n}</a></h3><p><a href='/{n}'>{TEASER}.</a></p></div>" for n in "12"
    )
    assert lines(f"<article>{ARTICLE}</article>{teasers}") == LINES


@pytest.mark.parametrize("name", ["sidebar-left", "body-with-sidebar", "menu-layout", "rail", "widget"])
def test_an_article_in_parts_with_one_name_stays_whole(name: str) -> None:
    part = f"<div class={name}><p>{{}}</p></div>"
    page = f"{part.format(FIRST)}{part.format(SECOND)}<div><p>{THIRD}</p></div>"
    assert lines(page) == [
        FIRST,
        SECOND,
        THIRD,
    ]


def test_a_short_part_of_an_article_stays_beside_a_long_one() -> None:
    long, short = (
        f"<div class=rail><p>{FIRST}</p><p>{SECOND}</p></div>",
        f"<div class=rail><p>{THIRD}</p></div>",
    )
    assert lines(f"{long}{short}<div><p>{TEASER}.</p></div>")[:3] == [FIRST, SECOND, THIRD]


def test_what_browsers_never_show_is_no_text_and_tags_that_they_show_are() -> None:
    unseen = "<title>Moon</title><datalist><option>New</datalist><progress>3</progress><meter>4</meter>"
    assert lines(f"<p>{FIRST}</p>{unseen}<p>{SECOND}</p>") == [FIRST, SECOND]
    assert lines(f"<p>{FIRST}</p><xmp><b>Moon</b> &lt;</xmp><p>{SECOND}</p>") == [
        FIRST,
        "<b>Moon</b> &lt;",
        SECOND,
    ]
    plain = lines(f"<p>{FIRST}</p><p>{SECOND}</p><plaintext><i>Moon</p>")
    assert plain == [FIRST, SECOND, "<i>Moon</p></body></html>"]


def test_neighbours_are_never_glued() -> None:
    parts = f"<x-par>{FIRST}</x-par><x-par>{SECOND}</x-par> <x-par>{THIRD}</x-par>"
    assert lines(parts) == [FIRST, SECOND, THIRD]
    assert lines(f"<div>{FIRST}<x-par>{SECOND}</x-par>{THIRD}</div>") == [FIRST, SECOND, THIRD]
    assert lines(f"<div><span>{FIRST}</span><span>{SECOND}</span></div>") == [f"{FIRST} {SECOND}"]

    term = "The <x-term>Moon</x-term>, <x-term>its</x-term> <x-term>phases</x-term> and U.<b>S</b>. law."
    assert lines(f"<p>{FIRST} {term}</p>") == [f"{FIRST} The Moon, its phases and U.S. law."]


def test_a_shadow_root_is_read_and_a_template_is_not() -> None:
    inner = f"<x-b><template shadowrootmode=open><style>p {{}}</style><p>{SECOND}</p></template></x-b>"
    root = (
        f"<x-a><template shadowrootmode=closed>{inner}<template><p>{TEASER}</p></template></template></x-a>"
    )
    assert lines(f"<p>{FIRST}</p>{root}<p>{THIRD}</p>") == [FIRST, SECOND, THIRD]


def test_a_note_in_the_text_is_a_part_of_it_and_a_quote_is_not() -> None:
    def page(aside: str) -> list[str]:
        return lines(f"<main><p>{FIRST}</p>{aside}<p>{THIRD}</p></main>")

    assert page(f"<aside><p>{SECOND} {TEASER}.</p></aside>") == [FIRST, f"{SECOND} {TEASER}.", THIRD]
    assert page(f"<aside class=note><p>{SECOND}</p></aside>") == [FIRST, SECOND, THIRD]
    assert page(f"<aside><p>{SECOND}</p></aside>") == [FIRST, THIRD]
    assert page(f"<aside class=related><p>{SECOND} {TEASER}.</p></aside>") == [FIRST, THIRD]
