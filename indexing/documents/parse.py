"""A raw page -> a Document, or Rejected with its reason: decoding, main text, title, language, length,
domain, ids.

The text is normalised once, before any offset is given (indexing/passages/text.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Set
from dataclasses import dataclass, replace

from answermill.indexing.crawl.media_types import HTML, NOT_WANTED, PLAIN, XHTML, detail_of
from answermill.indexing.crawl.plain_text import not_for_readers
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.documents.block_list import BlockList
from answermill.indexing.documents.domains import domain_of
from answermill.indexing.documents.exact_duplicates import text_hash
from answermill.indexing.documents.language import language_of
from answermill.indexing.documents.main_text import ExtractionFailed, TextExtractor
from answermill.indexing.documents.personal_data import MaskName, masked
from answermill.indexing.documents.quality import PageText, PresetName, refusal
from answermill.indexing.encodings.page_text import decode
from answermill.indexing.encodings.xhtml import as_html
from answermill.indexing.passages.text import normalise, one_line, visible
from answermill.schemas.corpus import Document, Rejected

_META = re.compile(r"<meta\b[^>]{1,1000}>", re.I)
_ROBOTS = re.compile(r"\bname\s*=\s*[\"']?\s*robots\b", re.I)
_CONTENT = re.compile(r"\bcontent\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.I)
_UNREADABLE = 0.05
"""Share of U+FFFD in a main text from which the page is refused."""


@dataclass(frozen=True)
class DocumentRules:
    """Rules by which pages become documents."""

    languages: Set[str] = frozenset({"en"})  # as in Document.language; none keeps every language
    language_confidence: float = 0.0  # at least
    min_words: int = 30
    max_characters: int = 1_000_000
    require_title: bool = True  # of HTML pages; JSONL, Parquet and plain text need not have one
    media_types: tuple[str, ...] = (HTML, XHTML)  # of the pages of servers
    quality: tuple[PresetName, ...] = ()  # presets of rules about the text
    masks: tuple[MaskName, ...] = ()  # personal data to mask in the text before anything is counted in it
    refuse_noindex: bool = False  # HTML pages that ask robots not to index them
    blocked: BlockList | None = None  # hosts and addresses whose pages are refused
    domains: Set[str] | None = None  # pages of other registered domains are refused; None keeps every domain


def parse(page: RawPage, rules: DocumentRules, extractor: TextExtractor) -> Document | Rejected:
    """The document that a page holds, or why it is refused; a page of another domain is refused before it is
    decoded."""
    names = (page.url, page.doc_id, page.source_record)
    if not all(map(str.isprintable, names)):
        url, doc_id, source_record = map(visible, names)
        page = replace(page, url=url, doc_id=doc_id, source_record=source_record)

    # The cheapest refusals come first: a page of another domain is not even decoded.
    domain = domain_of(page.url)
    if rules.domains is not None and domain not in rules.domains:
        return _rejected(page, "domain", f"{domain!r} is none of the {len(rules.domains)} that are kept")
    if rules.blocked is not None and (entry := rules.blocked.entry(page.url)):
        return _rejected(page, "blocked", f"{entry!r} is on the block list")

    # Rows, and texts that a crawler has extracted, are pages of no media type.
    is_served = page.text is None and not page.is_conversion
    if is_served and page.content_type not in rules.media_types:
        return _rejected(page, NOT_WANTED, detail_of(NOT_WANTED, page.content_type))

    is_html = page.text is None and page.content_type != PLAIN
    title, text = page.title, page.text
    if text is None:
        text = decode(page.body, page.charset, page.content_type)
        if text is None:
            return _rejected(
                page, "undecodable", f"{len(page.body)} bytes, charset {page.charset or 'not declared'}"
            )

    if is_served and not is_html and (kind := not_for_readers(page.url, text)):
        return _rejected(page, "plain_text", kind)

    if is_html and rules.refuse_noindex and (robots := noindex(text)):
        return _rejected(page, "noindex", robots)

    if is_html:
        try:
            title, text = extractor.extract(as_html(text) if page.content_type == XHTML else text)
        except ExtractionFailed as e:
            return _rejected(page, e.reason, e.detail)

    # Offsets are given into this text, so nothing changes it from here on.
    title, text = one_line(title), masked(normalise(text), rules.masks)
    if not text:
        return _rejected(page, "no_content", "no main text was found" if is_html else "the text is empty")
    if (unread := text.count("\ufffd")) > _UNREADABLE * len(text):
        return _rejected(
            page, "undecodable", f"{unread} of {len(text)} characters of its main text are U+FFFD"
        )
    if is_html and rules.require_title and not title:
        return _rejected(page, "no_title", "neither <title> nor og:title nor <h1>")
    if len(text) > rules.max_characters:
        return _rejected(page, "too_long", f"{len(text)} characters; at most {rules.max_characters}")

    content = PageText(text)
    if content.word_count < rules.min_words:
        return _rejected(page, "too_short", f"{content.word_count} words; at least {rules.min_words}")

    language, confidence = language_of(text, page.language)
    content.language = language
    if rules.languages and language not in rules.languages:
        wanted = " or ".join(map(repr, sorted(rules.languages)))
        return _rejected(page, "language", f"{language!r}, not {wanted}")
    if confidence < rules.language_confidence:
        return _rejected(
            page,
            "language_unsure",
            f"{confidence:g} for {language!r}; at least {rules.language_confidence:g}",
        )

    if refused := refusal(content, rules.quality):
        return _rejected(page, *refused)

    return Document(
        doc_id=page.doc_id or hashlib.sha256(f"{page.url}\n{text}".encode()).hexdigest()[:16],
        url=page.url,
        domain=domain,
        title=title,
        text=text,
        language=language,
        language_confidence=confidence,
        date=page.date,
        source_file=page.source_file,
        source_offset=page.source_offset,
        source_record=page.source_record,
        text_hash=text_hash(text),
        metrics=content.metrics(),
    )


def noindex(html: str) -> str:
    """The <meta name="robots"> of a page that asks not to be indexed ('noindex' or 'none'); '' if there is
    none."""
    for meta in _META.finditer(html):
        tag = meta[0]
        if _ROBOTS.search(tag) and (content := _CONTENT.search(tag)):
            words = re.split(r"[\s,]+", (content[1] or content[2] or content[3] or "").lower())
            if {"noindex", "none"} & set(words):
                return " ".join(tag.split())[:200]
    return ""


def _rejected(page: RawPage, reason: str, detail: str) -> Rejected:
    return Rejected(page.source_file, page.source_offset, page.source_record, page.url, reason, detail)
