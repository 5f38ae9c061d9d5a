"""A plain script that cuts a crawl into passages without AnswerMill: FastWARC, Trafilatura, spaCy, a loop.

It does the same job as ingest on good input: HTML pages of status 200, their main text, sentences, and
passages of whole sentences of about 100 words, with the source of each. It has no child process to protect it
from a page, no check of duplicates or of the language, no rejects, and it starts anew after a kill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resiliparse.parse.encoding import detect_encoding

WORDS = 100
"""Least words of a passage, unless its document ends."""


def plain_ingest(files: Sequence[Path], out: Path) -> int:
    """Write the passages of the files' pages to the JSON lines file `out`; returns their number. Raises
    ImportError without Trafilatura."""
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    written = 0

    with out.open("w", encoding="utf-8") as lines:
        for file in files:
            for url, position, text in main_texts(file):
                for start, passage in passages(nlp, text):
                    row = {
                        "file": file.name,
                        "position": position,
                        "url": url,
                        "start": start,
                        "text": passage,
                    }
                    lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                    written += 1

    return written


def main_texts(file: Path) -> Iterator[tuple[str, int, str]]:
    """(URL, position in the file, main text) of each HTML page that has one."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from trafilatura import extract

    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True):
            http = record.http_headers
            if http is None or http.status_code != 200 or "html" not in (record.http_content_type or ""):
                continue
            content = record.reader.read()
            html = content.decode(record.http_charset or detect_encoding(content) or "utf-8", "replace")
            if text := extract(html, fast=True, include_comments=True):
                yield record.headers.get("WARC-Target-URI") or "", record.stream_pos, text


def passages(nlp: Any, text: str) -> Iterator[tuple[int, str]]:
    """(start, text) of the passages of a text: sentence after sentence, until there are WORDS words."""
    start, words = 0, 0
    document = nlp(text)
    for sentence in document.sents:
        words += len(sentence)
        if words >= WORDS:
            yield start, text[start : sentence.end_char]
            start, words = sentence.end_char, 0
    if words:
        yield start, text[start:]
