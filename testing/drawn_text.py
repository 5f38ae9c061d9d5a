"""Passages drawn anew from real sentences, as many as a measurement wants where real texts are too few."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from answermill.indexing.passages.sentences import sentence_spans


def wiki(data: Path) -> list[tuple[str, str]]:
    """(title, text) of each document of `corpus-wiki`."""
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        return [(row.get("title") or "", row["text"]) for row in map(json.loads, file)]


def drawn(documents: Sequence[tuple[str, str]], sentences: int) -> Iterator[tuple[str, list[str]]]:
    """(title, that many sentences) without end, each drawn from all (title, text); always the same."""
    titles = [title for title, _ in documents]
    real = [text[begin:end].strip() for _, text in documents for begin, end in sentence_spans(text)]
    draw = random.Random(0)
    while True:
        yield draw.choice(titles), draw.choices(real, k=sentences)
