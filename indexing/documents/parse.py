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
from answermill.indexing.documents.language import Language, language_of
from answermill.indexing.documents.main_text import ExtractionFailed, TextExtractor
from answermill.indexing.documents.personal_data import MaskName, masked
from answermill.indexing.documents.quality import PageText, PresetName, refusal
from answermill.indexing.encodings.page_text import decode
from answermill.indexing.encodings.xhtml import as_html
from answermill.indexing.passages.text import normalise, one_line, visible
from answermill.schemas.corpus import Document, Rejected

_META = re.compile(
    r"<!--(?:.*?-->|.*)|<(script|style|template|textarea)\b[^<>]*+(?<!/)>.*?(?:</\1\s*>|\Z)"
    r"|(?P<tag><meta\b[^>]{1,1000}>)",
    re.I | re.S,
)
"""A <meta>, or what is before it and may hold the text of one."""
_ROBOTS = re.compile(r"(?<![\w-])name\s*=\s*[\"']?\s*robots\b", re.I)
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


class Refused(Exception):
    """A page that becomes no document: `reason` and `detail` as in Rejected."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def parse(page: RawPage, rules: DocumentRules, extractor: TextExtractor) -> Document | Rejected:
    """The document that a page holds, or why it is refused; a page of another domain is refused before it is
    decoded."""
    names = (page.url, page.doc_id, page.source_record)
    if not all(map(str.isprintable, names)):
        url, doc_id, source_record = map(visible, names)
        page = replace(page, url=url, doc_id=doc_id, source_record=source_record)

    try:
        return _document(page, rules, extractor)
    except (Refused, ExtractionFailed) as e:
        return Rejected(
            page.source_file, page.source_offset, page.source_record, page.url, e.reason, e.detail
        )


def _document(page: RawPage, rules: DocumentRules, extractor: TextExtractor) -> Document:
    # The cheapest refusals come first.
    domain = _wanted_domain(page, rules)
    title, text = _title_and_text(page, rules, extractor)

    # Offsets are given into this text, so nothing changes it from here on.
    title, text = (masked(part, rules.masks) for part in (one_line(title), normalise(text)))
    _check_text(page, title, text, rules)
    content = PageText(text)
    if content.word_count < rules.min_words:
        raise Refused("too_short", f"{content.word_count} words; at least {rules.min_words}")
    language, confidence = _wanted_language(page, text, rules)
    content.language = language
    if refused := refusal(content, rules.quality):
        raise Refused(*refused)

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


def _wanted_domain(page: RawPage, rules: DocumentRules) -> str:
    """The page's registered domain. Raises Refused for another domain, a blocked address or a media type that
    is not read."""
    domain = domain_of(page.url)
    if rules.domains is not None and domain not in rules.domains:
        raise Refused("domain", f"{domain!r} is none of the {len(rules.domains)} that are kept")
    if rules.blocked is not None and (entry := rules.blocked.entry(page.url)):
        raise Refused("blocked", f"{entry!r} is on the block list")
    if _is_served(page) and page.content_type not in rules.media_types:
        raise Refused(NOT_WANTED, detail_of(NOT_WANTED, page.content_type))
    return domain


def _title_and_text(page: RawPage, rules: DocumentRules, extractor: TextExtractor) -> tuple[str, str]:
    """The page's title and main text, as they stand in it. Raises Refused and ExtractionFailed."""
    if page.text is not None:
        return page.title, page.text

    text = decode(page.body, page.charset, page.content_type, page.likely_charset)
    if text is None:
        raise Refused("undecodable", f"{len(page.body)} bytes, charset {page.charset or 'not declared'}")
    if not _is_html(page):
        if _is_served(page) and (kind := not_for_readers(page.url, text)):
            raise Refused("plain_text", kind)
        return page.title, text

    if rules.refuse_noindex and (robots := noindex(text)):
        raise Refused("noindex", robots)
    return extractor.extract(as_html(text) if page.content_type == XHTML else text)


def _check_text(page: RawPage, title: str, text: str, rules: DocumentRules) -> None:
    """Raises Refused for no text, an unreadable or too long one, and an HTML page without the title that the
    rules want."""
    is_html = _is_html(page)
    if not text:
        raise Refused("no_content", "no main text was found" if is_html else "the text is empty")
    if (unread := text.count("\ufffd")) > _UNREADABLE * len(text):
        raise Refused("undecodable", f"{unread} of {len(text)} characters of its main text are U+FFFD")
    if is_html and rules.require_title and not title:
        raise Refused("no_title", "neither <title> nor og:title nor <h1>")
    if len(text) > rules.max_characters:
        raise Refused("too_long", f"{len(text)} characters; at most {rules.max_characters}")


def _wanted_language(page: RawPage, text: str, rules: DocumentRules) -> Language:
    """Raises Refused for another language, or one that is not sure enough."""
    language = language_of(text, page.language)
    code, confidence = language
    if rules.languages and code not in rules.languages:
        wanted = " or ".join(map(repr, sorted(rules.languages)))
        raise Refused("language", f"{code!r}, not {wanted}")
    if confidence < rules.language_confidence:
        raise Refused(
            "language_unsure", f"{confidence:g} for {code!r}; at least {rules.language_confidence:g}"
        )
    return language


def _is_served(page: RawPage) -> bool:
    """True of what a server sent: rows, and texts that a crawler has extracted, are of no media type."""
    return page.text is None and not page.is_conversion


def _is_html(page: RawPage) -> bool:
    return page.text is None and page.content_type != PLAIN


def noindex(html: str) -> str:
    """The <meta name="robots"> of a page that asks not to be indexed ('noindex' or 'none'); '' if there is
    none."""
    for match in _META.finditer(html):
        tag = match["tag"] or ""
        if _ROBOTS.search(tag) and (content := _CONTENT.search(tag)):
            words = re.split(r"[\s,]+", (content[1] or content[2] or content[3] or "").lower())
            if {"noindex", "none"} & set(words):
                return " ".join(tag.split())[:200]
    return ""
