"""Windows: more passages around a labelled sentence, for training (WQA §3.3; groups: WQA Table 3). Pure functions.

The paper says that a sliding window makes them, that the labelled sentence takes positions 1 to 5, and that a passage has
at most 200 tokens. The rest is settled here: a window is a run of whole sentences of one document, over line ends too,
that begins with the labelled sentence or up to `places` - 1 sentences before it, and extends to the right by as many
sentences as fit. It exists if the labelled sentence is in it; so a sentence too long to fit is a window of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from schemas.corpus import Document, Passage, Sentence

Group = Literal["all", "center", "random"]
Fits: TypeAlias = Callable[[str, int, int], bool]
"""Whether text[start:end] is short enough for a passage: `Splitter.fits`."""
Run: TypeAlias = tuple[int, int]
"""Sentences first .. last - 1 of a document, from 0."""


def windows(text: str, sentences: Sequence[Sentence], labelled: int, fits: Fits, places: int = 5) -> list[Run]:
    """The windows of sentence number `labelled` (from 0) of a document's sentences, the one that begins with it first."""
    firsts = range(labelled, max(labelled - places, -1), -1)
    runs = ((first, _last(text, sentences, first, fits)) for first in firsts)
    return [run for run in runs if run[1] > labelled]


def _last(text: str, sentences: Sequence[Sentence], first: int, fits: Fits) -> int:
    last = first + 1
    while last < len(sentences) and fits(text, sentences[first].start, sentences[last].end):
        last += 1
    return last


def choose(runs: Sequence[Run], labelled: int, group: Group, key: str) -> list[Run]:
    """Of a sentence's windows all; the one with the sentence nearest to its middle, the first of several; or a random one.

    `key` seeds the choice: it depends on nothing else, so on no order.
    """
    if group == "all":
        return list(runs)
    if group == "center":
        return [min(runs, key=lambda run: abs(run[0] + run[1] - 1 - 2 * labelled))]
    return [runs[int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % len(runs)]]


def passage(document: Document, sentences: Sequence[Sentence], run: Run) -> Passage:
    """A run of a document's sentences as a passage; its id is its place, '<doc_id>:<start>-<end>'."""
    inside = tuple(sentences[slice(*run)])
    start, end = inside[0].start, inside[-1].end
    name = f"{document.doc_id}:{start}-{end}"
    return Passage(name, document.doc_id, document.url, document.title, start, end, document.text[start:end], inside)
