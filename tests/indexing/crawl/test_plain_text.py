from __future__ import annotations

import pytest

from answermill.indexing.crawl.plain_text import not_for_readers

PROSE = (
    "Tea is a drink that people make of leaves and of hot water.\nIt is older than the printed book.\n" * 4
)
WGET = "--2013-05-01 12:00:00--  http://a.org/\nConnecting to a.org... connected.\n"


@pytest.mark.parametrize(
    "url", ["http://a.org/tea.txt", "http://a.org/", "http://a.org/README", "", "ftp://a.org/v1.2/tea"]
)
def test_a_text_for_readers_is_read(url: str) -> None:
    assert not_for_readers(url, PROSE) == ""
    assert not_for_readers(url, f"1. Tea [green]\n\n{PROSE}\n  * leaves; water\n12:30 tea\n") == ""


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://a.org/robots.txt", "robots.txt"),
        ("https://a.org/.well-known/Security.TXT?x", "security.txt"),
        ("metadata://gnu.org/software/wget/warc/wget.log", "a record about the crawl"),
        ("METADATA:a", "a record about the crawl"),
        ("http://a.org/list.xspf", "a playlist"),
        ("http://a.org/a/menu.htc", "a script or program"),
        ("http://a.org/access.log", "a log"),
        ("http://a.org/a.csv#b", "data"),
        ("http://[bad/robots.txt", "robots.txt"),
    ],
)
def test_an_address_says_that_a_text_is_for_machines(url: str, kind: str) -> None:
    assert not_for_readers(url, PROSE) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#EXTM3U\nhttp://a.org/1.mp3\n", "a playlist"),
        ("\ufeff[playlist]\nFile1=a.mp3", "a playlist"),
        ("<?xml version='1.0'?><playlist>", "markup"),
        (" <html><p>Tea", "markup"),
        ("Tea\n<ul>\n<li>a\n<li>b\n</ul>\n", "markup"),
        ("# all\nUser-agent: *\nDisallow: /\n", "robots.txt"),
        ("#!/bin/sh\necho tea\n", "a script or program"),
        ("var tea = 1;\nfunction pour() {\n  return tea;\n}\n", "a script or program"),
        ('{"tea": 1}', "data"),
        (WGET * 5, "a log"),
        ("127.0.0.1 - - [01/May/2013:12:00:00] GET /\n" * 5, "a log"),
        ("May  1 12:00:00 host sshd: tea\n" * 5, "a log"),
        ("[Wed May 01 12:00:00 2013] [error] tea\n" * 5, "a log"),
        ("01/May/2013:12:00:00 GET /\n" * 5, "a log"),
        ("[Reference]\nRef1=http://a.org/1.asf\n", "a playlist"),
        ("Sitemap: http://a.org/map.xml\nUser-agent: *\nDisallow:\n", "robots.txt"),
        ("--- a/tea\n+++ b/tea\n@@ -1 +1 @@\n-tea\n+coffee\n", "a script or program"),
        ("BEGIN:VCALENDAR\nVERSION:2.0\n", "data"),
        ("-----BEGIN CERTIFICATE-----\nMII\n", "data"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nTea.\n", "data"),
        ("{\\rtf1\\ansi Tea.}", "data"),
        ("http://a.org/1\nhttp://a.org/2\n", "data"),
        ("[tea]\nkind = green\ncups=2\n", "data"),
        ("tea: green\ncups: 2\n", "data"),
        ("id,tea,cups\n1,green,2\n", "data"),
        ("dGVhIGlzIGEgZHJpbmsgdGhhdCBwZW9wbGUgbWFrZSBvZiB0aGUgbGVhdmVzIG9mIGEgcGxhbnQ=\n", "data"),
    ],
)
def test_a_text_for_machines_is_known_by_its_lines(text: str, kind: str) -> None:
    assert not_for_readers("http://a.org/", text) == kind
