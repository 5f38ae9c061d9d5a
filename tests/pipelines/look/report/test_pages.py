"""Pages load nothing, run nothing, and show text from the web as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from answermill.pipelines.look.report.figures import Amount
from answermill.pipelines.look.report.pages import templates
from answermill.pipelines.look.report.pages.run_page import run_page
from answermill.pipelines.look.report.run_report import read_report, write_report
from tests.pipelines.look.report.written_run import passage, write_run

HOSTILE = (
    '</style><script>alert(1)</script><img src=x onerror=\'alert(2)\'>" onload="alert(3)" <!-- \x00\x1b[31m '
    "]]>"
)
FOLDER = Path(templates.__file__).parent
LOADING = {
    "script",
    "img",
    "link",
    "iframe",
    "object",
    "embed",
    "audio",
    "video",
    "source",
    "base",
    "form",
    "input",
    "image",
}


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Elements:
    page = passage(
        f"One {HOSTILE}.",
        url=f"javascript:alert(4)//{HOSTILE}",
        title=HOSTILE,
        source_file=HOSTILE.replace("/", "_"),
    )
    run = write_run(
        tmp_path_factory.mktemp("hostile") / "run",
        HOSTILE,
        page,
        stages=(HOSTILE, "last"),
        reason=HOSTILE,
        question_id=HOSTILE,
    )
    write_report(run)

    return Elements((run / "report.html").read_text(encoding="utf-8"))


def test_hostile_text_is_shown_and_becomes_no_element(hostile: Elements) -> None:
    assert hostile.open == []
    assert not LOADING & {tag for tag, _ in hostile.elements}
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert hostile.text.count(shown) >= 6  # question, its id, answer, title, stage, reason
    assert "\x00" not in hostile.text


def test_a_page_has_no_address_to_load_and_no_link_but_to_pages_of_the_web(
    hostile: Elements, small_run: Path, tmp_path: Path
):
    # Its only URL runs a script.
    assert not [attributes for tag, attributes in hostile.elements if tag == "a"]
    write_report(small_run, out=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    real = Elements(page)
    links = [attributes["href"] for tag, attributes in real.elements if tag == "a"]
    assert len(links) > 20 and all(url is not None and url.startswith("https://") for url in links)
    assert not LOADING & {tag for tag, _ in real.elements} and "@import" not in page and "url(" not in page
    assert (
        "meta",
        {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
    ) in (real.elements)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "", "//a.example", "ftp://a"]
)
def test_only_a_page_of_the_web_becomes_a_link(url: str) -> None:
    assert part("link", url, "text").strip() == '<span dir="auto">text</span>'
    assert part("link", "HTTPS://a.example/?a=1&b", "text").startswith(
        '<a href="HTTPS://a.example/?a=1&amp;b"'
    )


def part(name: str, *values: object) -> str:
    """What a macro of the templates makes of values."""
    return str(getattr(templates.TEMPLATES.get_template("parts.html.j2").module, name)(*values))


def test_text_is_escaped_between_tags_and_in_attributes() -> None:
    drawn = Elements(part("link", f"https://{HOSTILE}", HOSTILE))
    assert (
        drawn.elements
        == [("a", {"href": f"https://{HOSTILE}", "rel": "noopener noreferrer nofollow", "dir": "auto"})]
        and drawn.text.strip() == HOSTILE
    )


def test_a_template_marks_nothing_as_markup_and_prints_nothing_that_is_missing() -> None:
    sources = {
        name: (FOLDER / name).read_text(encoding="utf-8")
        for name in templates.TEMPLATES.list_templates(["j2"])
    }
    assert len(sources) == 4
    assert not [
        name
        for name, text in sources.items()
        if re.search(r"\|\s*safe\b|autoescape|tojson|xmlattr|urlize", text)
    ]

    # It is included as a template.
    assert not re.search(r"\{[{%#]", (FOLDER / "style.css").read_text(encoding="utf-8"))
    with pytest.raises(UndefinedError):
        list(templates.page("two_runs.html.j2"))


def test_a_page_is_written_piece_by_piece_and_always_the_same(small_run: Path) -> None:
    report = read_report(small_run)
    pieces = list(run_page(report))
    whole = "".join(pieces)
    assert pieces == list(run_page(report)) and max(map(len, pieces)) < len(whole) / 4
    first = next(run_page(report))
    assert first.startswith("<!DOCTYPE html>") and "<main>" not in first


def test_bars_are_in_proportion_and_nothing_has_no_bar() -> None:
    drawn = part("bars", "Pages", [Amount("a", 4), Amount("b", 1), Amount("c", 0)])
    assert drawn.count("<i ") == 2 and "width:100.00%" in drawn and "width:25.00%" in drawn
    assert "<i " not in part("bars", "Pages", [Amount("a", 0)]) + part("bars", "Pages", [])
