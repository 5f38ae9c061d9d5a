from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.documents.domains import domain_of
from answermill.indexing.documents.language import language_of
from answermill.indexing.documents.main_text import TextExtractor
from answermill.indexing.documents.parse import DocumentRules, parse
from answermill.indexing.documents.quality import PageText
from answermill.schemas.corpus import Document, Rejected

WEB = Path(__file__).parents[3].parent / "shared" / "data" / "web-html"
ENGLISH = (
    "The Moon is the only natural satellite of the Earth. It orbits at an average distance of 384,400 "
    "kilometres, "
    "about 30 times the diameter of the planet. Its gravity causes the tides of the oceans, and it "
    "lengthens the day a little."
)
GERMAN = (
    "Der Mond ist der einzige natürliche Satellit der Erde. Er umkreist sie in einem mittleren Abstand von "
    "384.400 Kilometern, "
    "etwa dem Dreißigfachen ihres Durchmessers. Seine Schwerkraft verursacht die Gezeiten der Meere und "
    "macht den Tag länger."
)
TABLE = "Model A 12 V 3.5 A 40 W\nModel B 24 V 1.5 A 36 W\nModel C 12 V 5.0 A 60 W\nModel D 48 V 0.5 A 24 W"
RULES = DocumentRules()


@pytest.fixture(scope="module")
def extractor() -> Iterator[TextExtractor]:
    with TextExtractor(deadline_s=0.5) as running:
        yield running


def html(
    body: bytes | str,
    charset: str = "",
    content_type: str = "text/html",
    url: str = "https://www.example.co.uk/a",
) -> RawPage:
    content = body.encode() if isinstance(body, str) else body
    return RawPage(
        "in.warc.gz", 42, "<urn:uuid:1>", url, "2020-01-02", content_type, charset, content, None, "", ""
    )


def row(text: str, **more: str) -> RawPage:
    values = {"url": "", "title": "", "doc_id": "", "language": ""} | more

    return RawPage(
        "in.jsonl",
        7,
        values["doc_id"],
        values["url"],
        "",
        "text/plain",
        "",
        b"",
        text,
        values["title"],
        values["doc_id"],
        values["language"],
    )


def page(text: str, title: str = "<title>The Moon</title>") -> str:
    return f"<html><head>{title}</head><body><nav>Home Shop</nav><main><p>{text}</p></main></body></html>"


def test_a_page_becomes_a_document_that_says_where_it_came_from(extractor: TextExtractor) -> None:
    document = parse(html(page(ENGLISH.replace(" ", "  \n"))), RULES, extractor)

    assert document == Document(
        doc_id=hashlib.sha256(f"https://www.example.co.uk/a\n{ENGLISH}".encode()).hexdigest()[:16],
        url="https://www.example.co.uk/a",
        domain="example.co.uk",
        title="The Moon",
        text=ENGLISH,
        language="en",
        language_confidence=language_of(ENGLISH, "").confidence,
        date="2020-01-02",
        source_file="in.warc.gz",
        source_offset=42,
        source_record="<urn:uuid:1>",
        text_hash=hashlib.sha256(ENGLISH.lower().encode()).hexdigest()[:32],
        metrics=PageText(ENGLISH).metrics(),
    )


def test_texts_that_differ_in_case_and_white_space_have_one_hash_and_their_own_ids(
    extractor: TextExtractor,
) -> None:
    one = parse(row(ENGLISH, url="http://a.example/"), RULES, extractor)
    other = parse(row(ENGLISH.upper().replace(". ", ".\n\n"), url="http://b.example/"), RULES, extractor)
    assert isinstance(one, Document) and isinstance(other, Document)
    assert one.text_hash == other.text_hash and one.doc_id != other.doc_id
    identified = parse(row(ENGLISH, doc_id="x:1"), RULES, extractor)
    assert isinstance(identified, Document) and identified.doc_id == identified.source_record == "x:1"


@pytest.mark.parametrize(
    ("raw", "rules", "reason", "detail"),
    [
        (html(""), RULES, "no_content", "no main text was found"),
        (html("<title>T</title>"), RULES, "no_content", "no main text was found"),
        (row(" \n \u200b"), RULES, "no_content", "the text is empty"),
        (html(page(ENGLISH, "")), RULES, "no_title", "neither <title>"),
        (html(page("Too short.")), RULES, "too_short", "2 words; at least 30"),
        (
            html(b""),
            DocumentRules(domains={"example.org"}),
            "domain",
            "'example.co.uk' is none of the 1 that are kept",
        ),
        (row(ENGLISH), DocumentRules(domains=set()), "domain", "'' is none of the 0 that are kept"),
        (
            row(ENGLISH),
            DocumentRules(max_characters=100),
            "too_long",
            f"{len(ENGLISH)} characters; at most 100",
        ),
        (html(page(GERMAN)), RULES, "language", "'de', not 'en'"),
        (html(ENGLISH, content_type="text/plain"), RULES, "media_type", "text/plain"),
        (html(page(ENGLISH)), DocumentRules(media_types=("text/plain",)), "media_type", "text/html"),
        (
            html(ENGLISH, content_type="text/plain", url="http://a.org/robots.txt"),
            DocumentRules(media_types=("text/plain",)),
            "plain_text",
            "robots.txt",
        ),
        (
            html(page("\ufffd\ufffd\ufffd " * 40) + f"<script>{'var a;' * 5_000}</script>"),
            RULES,
            "undecodable",
            "120 of 159 characters of its main text are U+FFFD",
        ),
        (row(ENGLISH, language="fr-CA"), RULES, "language", "'fr', not 'en'"),
        (html(page(GERMAN)), DocumentRules(languages={"fr", "en"}), "language", "'de', not 'en' or 'fr'"),
        (row(TABLE), DocumentRules(languages=frozenset(), language_confidence=0.5), "language_unsure", "0.0"),
        (html(b"\x81\x00\x9d\xff" * 250, "utf-8"), RULES, "undecodable", "1000 bytes, charset utf-8"),
        (
            html("".join(f"<b {n}>" for n in range(20_000))),
            RULES,
            "extraction_timeout",
            "more than 0.5 s of CPU time",
        ),
    ],
)
def test_a_refused_page_says_why(
    raw: RawPage, rules: DocumentRules, reason: str, detail: str, extractor: TextExtractor
) -> None:
    outcome = parse(raw, rules, extractor)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == reason and outcome.detail.startswith(detail)
    assert (outcome.source_file, outcome.source_offset, outcome.url) == (
        raw.source_file,
        raw.source_offset,
        raw.url,
    )


@pytest.mark.parametrize(
    ("raw", "rules"),
    [
        (html(page(ENGLISH, "")), DocumentRules(require_title=False)),
        (row(ENGLISH), RULES),
        (html(ENGLISH, content_type="text/plain"), DocumentRules(media_types=("text/plain",))),
        (replace(html(ENGLISH, content_type="text/plain"), is_conversion=True), RULES),
        (html(page(f"{ENGLISH} It is 5\ufffdC.")), RULES),
        (html(page(GERMAN)), DocumentRules(languages=set())),
        (
            row("月は地球の唯一の自然衛星であり、太陽系で五番目に大きい。" * 3),
            DocumentRules(languages=set()),
        ),
        (row(ENGLISH, language="en-GB"), RULES),
        (html(page(GERMAN)), DocumentRules(languages={"en", "de"})),
        (row("word " * 30, language="en"), RULES),
    ],
)
def test_a_page_that_keeps_the_rules_is_kept(
    raw: RawPage, rules: DocumentRules, extractor: TextExtractor
) -> None:
    assert isinstance(parse(raw, rules, extractor), Document)


def test_domains_are_those_that_one_can_register() -> None:
    urls = [
        "https://www.bbc.co.uk/news",
        "http://user@a.b.example.com:80/x",
        "http://127.0.0.1/",
        "http://fakehost/",
        "",
        "http://[bad",
    ]
    assert [domain_of(url) for url in urls] == ["bbc.co.uk", "example.com", "", "", "", ""]

    assert domain_of("http://WWW.Example.CO.UK/") == "example.co.uk"
    assert [domain_of(f"http://{host}/") for host in ("a.b.unlisted", "b.unlisted", "a..b", "[::1]")] == [
        "b.unlisted"
    ] * 2 + [""] * 2


@pytest.mark.skipif(not WEB.exists(), reason="the measuring data is not beside this checkout")
def test_english_pages_are_told_from_others(extractor: TextExtractor) -> None:
    rules = DocumentRules(require_title=False)
    counts = {}
    for name in ("trafilatura-en.warc.gz", "trafilatura-non-english.warc.gz"):
        pages = [one for one in read_pages(WEB / name, name, Counter()) if isinstance(one, RawPage)]
        parsed = [parse(one, rules, extractor) for one in pages]
        assert len(parsed) == len(pages) > 50
        counts[name] = Counter(one.reason if isinstance(one, Rejected) else "document" for one in parsed)
    english, others = counts.values()
    # The main text of these is German, Spanish or Italian, under an English frame.
    assert english["language"] <= 13
    assert others["document"] == 0 and others["language"] >= 57


@pytest.mark.parametrize(
    ("meta", "refused"),
    [
        ('<meta name="robots" content="noindex, nofollow">', True),
        ("<META CONTENT='none' NAME=ROBOTS>", True),
        ("<meta name=robots content=noindex>", True),
        ('<meta name="robots" content="index,follow">', False),
        ('<meta name="robots" content="max-image-preview:large">', False),
        ('<meta name="description" content="noindex">', False),
        ("<!-- <meta name='robots' content='noindex'> -->", False),
        ("<script>document.write(\"<meta name='robots' content='noindex'>\")</script>", False),
        ("<meta data-name='robots' name='x' content='none'>", False),
        ("<!-- a --><style>b {}</style><meta name='robots' content='noindex'>", True),
    ],
)
def test_a_page_that_wants_no_index_is_refused_if_that_is_heeded(
    meta: str, refused: bool, extractor: TextExtractor
) -> None:
    raw = html(page(ENGLISH, f"<title>The Moon</title>{meta}"))
    assert isinstance(parse(raw, RULES, extractor), Document)
    result = parse(raw, DocumentRules(refuse_noindex=True), extractor)
    assert (isinstance(result, Rejected) and result.reason == "noindex") == refused


def test_presets_and_masks_of_the_rules_are_applied(extractor: TextExtractor) -> None:
    raw = html(page(f"{ENGLISH} Write to moon@example.org.", "<title>Ask moon@example.org</title>"))
    document = parse(raw, DocumentRules(masks=("email",)), extractor)
    assert isinstance(document, Document) and document.text.endswith("Write to [email].")
    assert document.title == "Ask [email]"
    refused = parse(raw, DocumentRules(quality=("gopher",)), extractor)
    assert isinstance(refused, Rejected) and refused.reason == "gopher_words"


@pytest.mark.parametrize(
    "head",
    [
        "<title>The Moon</title><script/>",
        "<title/><style/><link/>",
        "<title>The Moon</title><style><![CDATA[a > b { }]]></style>",
    ],
)
@pytest.mark.parametrize(
    "before", ["", "<iframe/>", "<textarea/>", "<button/>", "<a id='a'/>", "<div/><br/>"]
)
def test_xhtml_is_read_as_xml_where_it_is_served_so(head: str, before: str, extractor: TextExtractor) -> None:
    written = ENGLISH.replace("The Moon", "<![CDATA[The Moon]]>")
    body = f"<?xml version='1.0'?><html><head>{head}</head><body>{before}<p>{written}</p></body></html>"
    raw = html(body, content_type="application/xhtml+xml")
    document = parse(raw, DocumentRules(require_title=False), extractor)
    assert isinstance(document, Document) and document.text == ENGLISH
