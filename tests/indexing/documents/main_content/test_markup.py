from __future__ import annotations

import pytest

from answermill.indexing.documents.main_content.markup import with_shadows
from tests.indexing.documents.main_content.test_main_content import FIRST, SECOND, TEASER, THIRD, lines

ROOT = '<template shadowrootmode="{}"><p>{}</p></template>'


@pytest.mark.parametrize("host", ["div", "section", "span", "x-page"])
@pytest.mark.parametrize("mode", ["open", "closed", "OPEN"])
def test_an_element_that_may_have_a_shadow_root_has_the_first(host: str, mode: str) -> None:
    roots = ROOT.format(mode, SECOND) + ROOT.format(mode, TEASER)
    assert lines(f"<main><p>{FIRST}</p><{host}>{roots}</{host}><p>{THIRD}</p></main>") == [
        FIRST,
        SECOND,
        THIRD,
    ]


@pytest.mark.parametrize("host", ["ul", "dl", "pre", "a", "form"])
def test_another_element_has_none(host: str) -> None:
    page = f"<main><p>{FIRST}</p><{host}>{ROOT.format('open', TEASER)}{SECOND}</{host}><p>{THIRD}</p></main>"
    assert lines(page) == [FIRST, SECOND, THIRD]


def test_a_mode_that_is_none_makes_no_root() -> None:
    assert lines(f"<main><p>{FIRST}</p><div>{ROOT.format('x', TEASER)}</div><p>{THIRD}</p></main>") == [
        FIRST,
        THIRD,
    ]


def test_scripts_comments_and_void_elements_have_no_content_that_counts() -> None:
    root = '<template shadowrootmode="open">a</template>'
    before = '<img src="x"><!-- </div><ul> --><script>"<ul>"</script>'
    shown = "<shadow-root>a</shadow-root>"
    assert with_shadows(f"<div>{before}{root}</div>") == f"<div>{before}{shown}</div>"
    nested = f"<div>{root.replace('>a<', f'><p>{root}</p>{root}<')}</div>"
    assert with_shadows(nested) == f"<div><shadow-root><p>{shown}</p>{root}</shadow-root></div>"


@pytest.mark.parametrize(
    "style",
    [
        "display:block",
        "color: red; DISPLAY : flex",
        "display:table-row",
        "display:block!important",
        "top:0;position: absolute;left:0",
    ],
)
def test_an_element_that_its_style_sets_on_its_own_line_is_not_glued_to_its_neighbours(style: str) -> None:
    page = f'<p>{FIRST}<span style="{style}">{SECOND}</span>{THIRD}</p>'
    assert lines(page) == [FIRST, SECOND, THIRD]
    assert lines(f'<h2>Moon<b style="{style}">phases</b></h2><p>{FIRST}</p>')[:2] == ["Moon", "phases"]


@pytest.mark.parametrize(
    "style", ["display:inline-block", "display: inline", "display:contents", "float:left", "--display:block"]
)
def test_other_styles_cut_no_word(style: str) -> None:
    page = f'<p><span style="{style}">T</span>his is the Moon. {FIRST}</p>'
    assert lines(page) == [f"This is the Moon. {FIRST}"]


def test_characters_that_no_page_needs_join_and_break_no_words() -> None:
    assert lines(f"<p>Full\x1fmoon&#x1e;at&#31;night. {FIRST}</p>") == [f"Full moon at night. {FIRST}"]


def test_a_listing_is_preformatted() -> None:
    assert lines(f"<p>{FIRST}<listing>{SECOND}\n{THIRD}</listing>{FIRST}") == [FIRST, SECOND, THIRD, FIRST]


def test_an_element_that_its_style_alone_makes_part_of_a_line_begins_none() -> None:
    page = "<main><p>{}</p><div>The moon <{}>of the Earth</div> rises.</div></main>"
    whole = [FIRST, "The moon of the Earth rises."]
    assert lines(page.format(FIRST, 'div style="display: inline"')) == whole
    assert lines(page.format(FIRST, 'div style="display:contents; color: red"')) == whole
    for tag in ("div", 'div style="display:inline-block"', 'div class="sub" style="display: inline"'):
        assert lines(page.format(FIRST, tag)) == [FIRST, "The moon", "of the Earth", "rises."]


@pytest.mark.parametrize(
    "box",
    [
        '<img src="moon.png">',
        "<svg><title>Moon</title></svg>",
        "<button>Copy</button>",
        "<select><option>Moon</select>",
        "<input><i><video>Moon</video></i>",
        "<iframe></iframe><img>",
    ],
)
def test_no_word_goes_on_behind_a_picture_or_control(box: str) -> None:
    for before, after in (("Getty", "Moon"), ("is seen.", "Then"), ("<x-a>Getty</x-a>", "<x-a>Moon</x-a>")):
        page = f"<p>{FIRST}</p><p>{before}{box}{after}</p><p>{SECOND}</p>"
        words = " ".join(part.removeprefix("<x-a>").removesuffix("</x-a>") for part in (before, after))
        assert " ".join(lines(page)[1:-1]) == words
    assert (
        lines(f"<p>{FIRST}</p><p>{box}The moon{box}, <b>(</b>{box}full{box}).</p>")[1] == "The moon, (full)."
    )


def test_what_nobody_sees_separates_no_words() -> None:
    unseen = '<input type="hidden"><script></script><wbr><template>x</template><!-- x -->'
    assert lines(f"<p>{FIRST}</p><p>Moon{unseen}light</p>{SECOND}")[1] == "Moonlight"


@pytest.mark.parametrize("piece", ["<!--", "<a ", "a", "<script>", "<b>", "<template>"])
def test_megabytes_of_open_tags_are_written_before_the_suites_time_limit(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    assert with_shadows(f"<div><{text}</div>").endswith("</div>")


def test_a_page_of_pictures_is_read_before_the_suites_time_limit() -> None:
    assert lines(f"<p>{FIRST}{'<img>' * 200_000} <p>{SECOND}{'<span style=display:block>' * 20}") == [
        FIRST,
        SECOND,
    ]


@pytest.mark.parametrize(
    "gone", ["datalist", "noembed", "template", "math><annotation", "object", "svg><foreignObject"]
)
def test_pictures_and_controls_go_with_what_they_are_in(gone: str) -> None:
    inside = "<svg><title>A</title></svg><select><option>B</select><button>C</button>"
    page = f"<main><p>{FIRST}</p><{gone}>{inside}</{gone.rpartition('<')[2]}><p>{SECOND}</p></main>"
    assert lines(page) == [FIRST, SECOND]


@pytest.mark.parametrize("tag", ["del", "s", "strike"])
def test_struck_out_text_is_left_out(tag: str) -> None:
    shown = "The price of the ticket is 30 euros for each of the visitors."
    written = shown.replace("30 euros", f"<{tag}>50 euros</{tag}> <ins>30 euros</ins>")
    assert lines(f"<main><p>{FIRST}</p><p>{written}</p><p>{THIRD}</p></main>") == [FIRST, shown, THIRD]


def test_the_readings_of_ruby_are_left_out() -> None:
    city = "<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>"
    country = "<ruby>日本<rt>にほん</rt></ruby>"
    page = f"<main><p>{FIRST}</p><p>{city}は{country}の首都です。</p><p>{THIRD}</p></main>"
    assert lines(page) == [FIRST, "東京は日本の首都です。", THIRD]
