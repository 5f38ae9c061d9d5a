"""Pages load nothing, run nothing, and show text from the web as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from answermill.indexing.crawl.records import FAILURES
from answermill.indexing.passages.question_rules import refusal
from answermill.pipelines.look.report.figures import Amount, ShownAnswer
from answermill.pipelines.look.report.pages import templates
from answermill.pipelines.look.report.pages.reasons import meaning, meanings
from answermill.pipelines.look.report.pages.run_page import run_page
from answermill.pipelines.look.report.run_report import read_report, write_report
from answermill.pipelines.runs.watch.clock import record
from tests.pipelines.look.report.written_run import passage, write_run

HOSTILE = (
    '</style><script>alert(1)</script><img src=x onerror=\'alert(2)\'>" onload="alert(3)" <!-- \x00\x1b[31m '
    "]]>"
)
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
    # Its only URL of the web runs a script.
    assert {url for url in hrefs(hostile) if not url.startswith("#")} == {"answers.html", "answers.csv"}
    write_report(small_run, out=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    real = Elements(page)
    links = [url for url in hrefs(real) if not url.startswith("#")]
    beside = ["answers.html", "answers.csv"]
    assert [url for url in links if not url.startswith("https://")] == beside and len(links) > 20
    assert all((tmp_path / name).is_file() for name in beside)
    assert not LOADING & {tag for tag, _ in real.elements} and "@import" not in page and "url(" not in page
    assert (
        "meta",
        {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
    ) in (real.elements)


def hrefs(page: Elements) -> list[str]:
    return [attributes["href"] or "" for tag, attributes in page.elements if tag == "a"]


def test_the_contents_lead_to_every_section_and_to_nothing_else(
    hostile: Elements, small_run: Path, tmp_path: Path
) -> None:
    write_report(small_run, out=tmp_path)
    real = Elements((tmp_path / "report.html").read_text(encoding="utf-8"))
    for page in (hostile, real):
        sections = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
        assert [url.removeprefix("#") for url in hrefs(page) if url.startswith("#")] == sections


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
        name: next(folder / name for folder in templates.FOLDERS if (folder / name).is_file()).read_text(
            encoding="utf-8"
        )
        for name in templates.TEMPLATES.list_templates(["j2"])
    }
    assert len(sources) == 7
    assert not [
        name
        for name, text in sources.items()
        if re.search(r"\|\s*safe\b|autoescape|tojson|xmlattr|urlize", text)
    ]

    # They are included as templates.
    for name in ("style.css", "table.js"):
        assert not re.search(r"\{[{%#]", (templates.FOLDERS[0] / name).read_text(encoding="utf-8"))
    with pytest.raises(UndefinedError):
        list(templates.page("two_runs.html.j2"))


def test_a_heading_in_a_passage_keeps_its_line(tmp_path: Path) -> None:
    page = passage("The waggle dance\nA bee has found a meadow.")
    write_report(write_run(tmp_path / "run", "Why?", page))
    shown = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "The waggle dance\nA bee has found a meadow." in shown
    assert re.search(r"\.passage \{[^}]*white-space: pre-line", shown)


def test_what_is_judged_wrong_and_what_nobody_judged_have_two_marks() -> None:
    answers = {
        said: ShownAnswer("It.", "", "", 1, 0.5, 1, "A", "https://a.example", 0, "", None, said)
        for said in (True, False, None)
    }
    marks = {said: part("answer", shown, True) for said, shown in answers.items()}
    assert '<b class="correct">✓ judged correct</b>' in marks[True]
    assert '<b class="wrong">✗ judged wrong</b>' in marks[False]
    assert '<b class="unjudged">? not judged</b>' in marks[None]
    assert "judged" not in part("answer", answers[None], False)  # there are no labels at all


def test_reasons_of_refusals_are_explained(tmp_path: Path) -> None:
    write_report(write_run(tmp_path / "run", "Why?", passage("So."), reason="too_short"))
    shown = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "<dt>too_short</dt><dd>The page&#39;s main text has too few words.</dd>" in shown
    questions = refusal("Is http://a.example it?", lambda text: 1)
    assert questions is not None and meaning("questions_rejects", questions)


REFUSALS = re.compile(r"(?:rejected|ExtractionFailed|Refused)\((?:page, |document, )?\s*\"(\w+)\"")


def test_every_reason_in_the_code_has_its_sentence() -> None:
    root = Path(__file__).parents[4]
    files = [*(root / "indexing").rglob("*.py"), *(root / "pipelines/steps/ingest").glob("*.py")]
    reasons = {reason for file in files for reason in REFUSALS.findall(file.read_text(encoding="utf-8"))}
    assert len(reasons) > 15
    assert {reason for reason in {*reasons, *FAILURES} if not meaning("rejects", reason)} == set()
    sentences = [words for *_, words in meanings()]
    assert len(sentences) > 40 and all(re.fullmatch(r"[A-Z][^.]*\.", words) for words in sentences)


def test_the_timeline_has_a_bar_of_each_step_from_its_begin_to_its_end(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("So."))
    write_report(run)
    assert 'id="timeline"' not in (run / "report.html").read_text(encoding="utf-8")

    record(run, "ingest", 60.0, lambda: 1_000_060.0)
    record(run, "rerank", 30.0, lambda: 1_000_120.0)
    write_report(run)
    shown = (run / "report.html").read_text(encoding="utf-8")
    timeline = shown[shown.index('<section id="timeline">') : shown.index('<section id="all">')]
    assert re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', timeline) == [
        ("0.0", "500.0"),
        ("750.0", "250.0"),
    ]
    assert "ingest <small>1970-01-12 13:46 UTC" in timeline and "<b>0:01:00</b>" in timeline


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
