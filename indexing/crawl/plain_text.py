"""Plain text of servers that nobody wrote for readers: files for machines, and markup and code under a wrong
media type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_FOR_CRAWLERS = frozenset(("robots.txt", "ads.txt", "app-ads.txt", "security.txt", "sitemap.txt", "llms.txt"))
_ENDINGS = {
    "a playlist": "m3u m3u8 pls xspf asx wpl cue",
    "a script or program": "js mjs css htc json jsonl map py rb pl php sh bat c h cpp java go rs sql",
    "a log": "log out err trace",
    "data": "csv tsv xml rss atom yml yaml toml ini conf cfg diff patch svg wsdl xsd dtd ics vcf",
}
_ENDING = {f".{ending}": kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
_STARTS = {
    "a playlist": re.compile(r"#EXTM3U|\[(?:playlist|reference)\]", re.IGNORECASE),
    "markup": re.compile(r"<[a-z!?/]", re.IGNORECASE),
    "a script or program": re.compile(r"#!|['\"]use strict['\"]|diff --git |--- .*\n\+\+\+ "),
    "data": re.compile(
        r"[\[{]\s*[\[{\"]|BEGIN:V[A-Z]+\s*\n|-----BEGIN [A-Z]|WEBVTT\s|\{\\rtf|%PDF-|%!PS|MIME-Version: "
    ),
    "robots.txt": re.compile(r"(?:#.*\n|\s|(?:sitemap|host|(?:dis)?allow):.*\n)*user-agent:", re.IGNORECASE),
}
_LINES = {
    "a log": re.compile(
        r"-{0,2}\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\d{1,3}(?:\.\d{1,3}){3}\s"
        r"|\[?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:|\[?\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:"
    ),
    "a script or program": re.compile(r".*[;{}]\s*$|\s*(?://|/\*|\*/|#include|import |def |function )"),
    "markup": re.compile(r"\s*</?[a-z][^<>]*>", re.IGNORECASE),
    # Addresses, packed bytes, settings, and cells without a blank.
    "data": re.compile(
        r"\s*(?:[a-z]+://\S+|[A-Za-z0-9+/=]{60,}|[\w.-]+\s*[=:]\s*\S*|\[[^\]]+\]|(?:[^\s,;]*[,;]){2,}[^\s,;]*)\s*$"
    ),
}
_SHARE = 0.3
"""Share of the lines that make a text a log, a program, or markup."""


def not_for_readers(url: str, text: str) -> str:
    """A word for a text that nobody reads, by its address, its start and its lines; '' for any other text.

    >>> not_for_readers("http://a.org/robots.txt", ""), not_for_readers("http://a.org/tea", "Tea is a drink.")
    ('robots.txt', '')
    """
    scheme, _, rest = url.partition(":")
    if scheme.lower() == "metadata":
        return "a record about the crawl"
    try:
        name = urlsplit(url).path.rpartition("/")[2].lower()
    except ValueError:
        name = rest.rpartition("/")[2].lower()
    if name in _FOR_CRAWLERS:
        return name
    if kind := _ENDING.get(name[name.rfind(".") :]):
        return kind

    start = text[:4_096].lstrip("\ufeff \t\r\n")
    if kind := next((kind for kind, begins in _STARTS.items() if begins.match(start)), ""):
        return kind
    lines = [line for line in text[:65_536].splitlines() if line.strip()]
    return next((kind for kind, form in _LINES.items() if _share(lines, form) > _SHARE), "")


def _share(lines: Sequence[str], form: re.Pattern[str]) -> float:
    return sum(form.match(line[:400]) is not None for line in lines) / max(1, len(lines))
