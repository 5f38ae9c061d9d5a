"""A document of a text, for tests of what is cut from documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from answermill.schemas.corpus import Document, TextMetrics

_PLAIN = Document(
    doc_id="d",
    url="",
    domain="",
    title="",
    text="",
    language="en",
    language_confidence=1.0,
    date="",
    source_file="f",
    source_offset=0,
    source_record="",
    text_hash="",
    metrics=TextMetrics(0, 0, 0, 0, 0, 0, 0, 0),
)


def document_of(text: str, **columns: Any) -> Document:
    return replace(_PLAIN, text=text, **columns)
