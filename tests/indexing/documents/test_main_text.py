from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from answermill.indexing.documents.main_text import ExtractionFailed, TextExtractor

PAGE = """<html><head><title>The  Moon &amp;
 its phases</title><script>var title = "<title>no</title>";</script></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a></nav>
<main><h1>Phases</h1><p>The Moon has <b>four</b> principal phases.</p><p>Each takes about a week.</p></main>
<footer>Copyright 2020</footer></body></html>"""
OPEN = "".join(f"<b {n}>" for n in range(20_000))  # 170 KB that take the parser seconds


@pytest.fixture(scope="module")
def extractor() -> Iterator[TextExtractor]:
    with TextExtractor(deadline_s=0.5) as running:
        yield running


def test_paragraphs_are_lines_and_navigation_is_gone(extractor: TextExtractor) -> None:
    title, text = extractor.extract(PAGE)
    assert title == "The Moon & its phases"
    lines = [line for line in text.splitlines() if line]
    assert lines[-2:] == ["The Moon has four principal phases.", "Each takes about a week."]
    assert "Shop" not in text and "Copyright" not in text


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title>A</title><meta property='og:title' content='B'>", "A"),
        ("<title> </title><meta property='og:title' content='B &amp; b'>", "B & b"),
        ("<meta name='og:title' content='B'>", "B"),
        ("<meta name='other' content='B'>", "C d"),
    ],
)
def test_the_title_is_the_titles_or_og_titles_or_the_first_headings(
    extractor: TextExtractor, head: str, title: str
) -> None:
    body = "<svg><title>icon</title></svg><h1>C <i>d</i></h1><h1>E</h1>"
    assert extractor.extract(f"<html><head>{head}</head><body>{body}</body></html>")[0] == title


@pytest.mark.parametrize(
    "html", ["", "no markup at all", "<", "\0", "<p>\ud800</p>", "<title>é😀</title>" + "x" * 3_000_000]
)
def test_odd_pages_are_answered(extractor: TextExtractor, html: str) -> None:
    title, text = extractor.extract(html)
    assert title in ("", "é😀") and len(text) <= len(html)


def test_a_page_that_takes_too_long_fails_alone(extractor: TextExtractor) -> None:
    with pytest.raises(ExtractionFailed) as failed:
        extractor.extract(OPEN)
    assert failed.value.reason == "extraction_timeout" and "0.5 s" in failed.value.detail
    assert extractor.extract(PAGE)[0] == "The Moon & its phases"


def test_a_child_that_is_killed_fails_one_page(extractor: TextExtractor) -> None:
    extractor.extract(PAGE)
    child = extractor._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with pytest.raises(ExtractionFailed) as failed:
        extractor.extract(PAGE)
    assert (failed.value.reason, failed.value.detail) == (
        "extraction_crashed",
        "the extracting process ended with SIGKILL",
    )
    assert extractor.extract(PAGE)[0] == "The Moon & its phases"


def test_a_page_that_needs_more_memory_than_allowed_fails_alone() -> None:
    with TextExtractor(memory_gb=0.4) as small:
        with pytest.raises(ExtractionFailed) as failed:
            small.extract("<i></i>" * 5_000_000)
        assert failed.value.reason == "extraction_crashed"
        assert small.extract(PAGE)[0] == "The Moon & its phases"


def test_the_child_starts_with_the_first_page_and_ends_with_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing depends on where the job runs
    extractor = TextExtractor()
    assert extractor._child is None
    extractor.extract(PAGE)
    child = extractor._child
    assert child is not None and child.poll() is None
    extractor.close()
    assert child.returncode == 0
    extractor.close()


def test_a_limit_that_nothing_can_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive, not 0 and 2"):
        TextExtractor(deadline_s=0, memory_gb=2)


def test_trafilatura_extracts_in_the_same_child() -> None:
    prose = "The Moon has four principal phases, and each of them takes about a week to go by."
    lists = (
        "<h2>Which they are</h2><ul><li>New moon, which nobody sees</li><li>Full moon, which everybody "
        "sees</li></ul>"
    )
    table = "<table><tr><th>Phase</th><th>Day</th></tr><tr><td>Full moon</td><td>15</td></tr></table>"
    page = PAGE.replace("<p>Each", f"<p>{prose}</p>{lists}{table}<p>Each")

    with TextExtractor(by="trafilatura") as trafilatura:
        title, text = trafilatura.extract(page)
        assert title == "The Moon & its phases"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert lines[lines.index(prose) :][1:4] == [
            "Which they are",
            "New moon, which nobody sees",
            "Full moon, which everybody sees",
        ]
        assert (
            any("Full moon" in line and "15" in line for line in lines)
            and "Shop" not in text
            and "Copyright" not in text
        )

        assert trafilatura.extract("") == ("", "")


@pytest.mark.parametrize("by", ["blocks", "resiliparse", "trafilatura"])
def test_readers_comments_are_main_text_unless_they_are_not_wanted(by: str) -> None:
    article = "".join(
        f"<p>{n} readers came to see the Moon rise over the sea, and they stayed until it had set.</p>"
        for n in range(9)
    )
    comments = (
        '<div id="comments" class="comments"><p>I was there as well, and it was a night that I shall not '
        "forget.</p></div>"
    )
    page = f"<html><body><article>{article}</article>{comments}</body></html>"
    for keep in (True, False):
        with TextExtractor(by=by, comments=keep) as extractor:
            text = extractor.extract(page)[1]
        assert "8 readers came" in text and ("I was there" in text) == keep


def test_trafilatura_is_ended_in_time_as_well() -> None:
    with TextExtractor(deadline_s=0.4, by="trafilatura") as trafilatura:
        with pytest.raises(ExtractionFailed, match="extraction_timeout"):
            trafilatura.extract(
                "<p>It takes long to read a page of a hundred thousand paragraphs.</p>" * 100_000
            )
        assert "principal phases" in trafilatura.extract(PAGE)[1]
