from __future__ import annotations

import re
from pathlib import Path

import pytest

from answermill.indexing.crawl.media_types import declared_type, sniffed_type
from answermill.indexing.crawl.raw_page import RawPage
from answermill.schemas.corpus import Rejected
from tests.indexing.crawl.warc_files import HTML, http, only, read, record

NOT_DECLARED = (
    "",
    "html",
    '"text/html"',
    "text/html:charset=utf-8",
    "text/html/",
    "text/html\\; charset",
    "text/ html",
    "text/html. charset",
    "/html",
    "*/*",
    "*/*;q=1",
    ";charset=utf-8",
    "application/octet-stream",
    "binary/octet-stream",
    "application/unknown",
    "unknown/unknown",
)
XHTML = b'<html xmlns="http://www.w3.org/1999/xhtml"><head/></html>'


@pytest.mark.parametrize(
    ("header", "name", "charset"),
    [
        ("TEXT/Html ;charset=UTF-8", "text/html", "UTF-8"),
        ('text/html; a="x;charset=b"; charset="koi8-r"', "text/html", "koi8-r"),
        ("text/html, text/html; charset=utf-8", "text/html", "utf-8"),
        ("text/html;charset=gbk, text/html", "text/html", "gbk"),
        ("text/html;charset=gbk, text/plain", "text/plain", ""),
        ("text/plain, text/html", "text/html", ""),
        ('text/html;a=",image/png"', "text/html", ""),
        ("text/html, */*, nonsense", "text/html", ""),
        ("text/html;charset", "text/html", ""),
        ("image/svg+xml", "image/svg+xml", ""),
        ("text/html charset=koi8-r", "text/html", ""),
        ("TEXT/HTML (a page)", "text/html", ""),
        ("image/png, application/xhtml+xml charset", "application/xhtml+xml", ""),
        ("image/png charset=koi8-r", "", ""),
    ],
)
def test_a_content_type_is_read_as_the_fetch_standard_does(header: str, name: str, charset: str) -> None:
    assert declared_type(header)[:2] == (name, charset)


@pytest.mark.parametrize(
    ("header", "likely"),
    [
        ("text/html charset=koi8-r", "koi8-r"),
        ("charset='koi8-r'", "koi8-r"),
        ("application/octet-stream; charset=koi8-r", "koi8-r"),
        ("text/html; charset=utf-8, text/html charset=koi8-r", ""),
        ("text/html", ""),
    ],
)
def test_a_charset_that_browsers_would_not_find_is_only_likely(header: str, likely: str) -> None:
    assert declared_type(header).likely_charset == likely


def test_a_type_with_something_behind_it_makes_a_page_of_what_does_not_look_like_one(tmp_path: Path) -> None:
    outcome = only(tmp_path, http(b"<span>Moon</span>", content_type="text/html charset=utf-8"))
    assert isinstance(outcome, RawPage) and outcome.content_type == "text/html"


@pytest.mark.parametrize("header", NOT_DECLARED)
def test_what_is_no_media_type_leaves_it_to_the_bytes(header: str, tmp_path: Path) -> None:
    assert declared_type(header).name == ""
    outcome = only(tmp_path, http(content_type=header))
    assert isinstance(outcome, RawPage) and outcome.content_type == "text/html"


@pytest.mark.parametrize(
    "name",
    re.split(",", "!DOCTYPE HTML,html,HEAD,script,iframe,h1,div,font,table,A,style,title,b,body,br,P"),
)
def test_a_tag_of_the_sniffing_standard_makes_html(name: str) -> None:
    heads = [
        f"<{name}>",
        f"\r\n\t <{name} a=b>",
        f"\ufeff<{name}>",
        f"<!-- a --><{name}>",
        f"<?xml version='1.0'?>\n<html><{name}>",
    ]
    assert [sniffed_type(head.encode()) for head in heads] == ["text/html"] * len(heads)
    assert sniffed_type(heads[0].encode("utf-16")) == "text/html"
    assert sniffed_type(f"<{name}s>".encode()) != "text/html" or name in "ab"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"", ""),
        (b"Tea <p>", "text/plain"),
        (b"<pre>Tea</pre>", "text/plain"),
        (b"<", "text/plain"),
        ("\ufeffTea".encode("utf-16"), "text/plain"),
        (b"Tea\0", "application/octet-stream"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"<?xml version='1.0'?><rss>", "text/xml"),
        (
            b"<?xml version='1.0'?><!-- <html> --><!DOCTYPE html [<!ENTITY a 'b'>]>" + XHTML,
            "application/xhtml+xml",
        ),
        (b"<?xml?>" + b"<!-- -->" * 5_000 + b"<p>", "text/xml"),
    ],
)
def test_other_bytes_are_what_they_look_like(body: bytes, name: str) -> None:
    assert sniffed_type(body) == name


@pytest.mark.parametrize(
    ("content_type", "body", "identified", "name"),
    [
        ("text/xml", b"<?xml version='1.0'?>" + XHTML, "", "application/xhtml+xml"),
        ("application/xml", XHTML, "", "application/xhtml+xml"),
        ("application/rss+xml", b"<rss>", "", "not_html"),
        ("text/xml", HTML, "", "not_html"),
        ("", b"Tea.", "text/html", "text/html"),
        ("", HTML, "image/png", "not_html"),
        ("application/x-httpd-php", HTML, "text/html", "text/html"),
        ("application/x-httpd-php", HTML, "", "not_html"),
        ("image/png", b"\x89PNG\r\n\x1a\n", "text/html", "not_html"),
        ("text/plain", HTML, "text/html", "text/plain"),
        ("text/plain", b"\0\1\2", "", "not_html"),
        ("text/html", b"\0\1\2", "", "text/html"),
    ],
)
def test_the_type_is_the_servers_then_the_crawlers_then_the_bytes(
    content_type: str, body: bytes, identified: str, name: str, tmp_path: Path
) -> None:
    outcome = only(tmp_path, http(body, content_type=content_type), WARC_Identified_Payload_Type=identified)
    assert (outcome.reason if isinstance(outcome, Rejected) else outcome.content_type) == name


@pytest.mark.parametrize("name", ["application/x-httpd-php", "text/htm", "text/xhtml", "application/html"])
def test_a_type_that_is_never_read_is_named_in_its_reject(name: str, tmp_path: Path) -> None:
    outcome = only(tmp_path, http(content_type=f"{name}; charset=utf-8"))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.detail) == ("not_html", f"{name}; ingest.media_types cannot name it")


def test_a_conversion_is_text_that_its_crawler_has_extracted(tmp_path: Path) -> None:
    for kind, is_conversion in (("conversion", True), ("resource", False)):
        (page,), _ = read(tmp_path / "a.warc", record(kind, b"Tea.", "text/plain"))
        assert isinstance(page, RawPage) and page.is_conversion == is_conversion


@pytest.mark.parametrize(
    "feed",
    [
        '<?xml version="1.0"?>\n<!-- a > b --><rss version="2.0"><channel><title>Tea',
        '\ufeff<feed xmlns="http://www.w3.org/2005/Atom">',
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">',
    ],
)
def test_a_feed_that_its_server_calls_html_is_none(feed: str, tmp_path: Path) -> None:
    outcome = only(tmp_path, http(feed.encode() + HTML))
    assert isinstance(outcome, Rejected) and outcome.detail.startswith("text/xml")
    assert isinstance(only(tmp_path, http(b"<!-- <rss> -->" + HTML)), RawPage)
