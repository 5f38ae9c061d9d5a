"""Windows: more passages around a labelled sentence, for training (WQA §3.3; groups: WQA Table 3). Pure functions.

The paper says that a sliding window makes them, that the labelled sentence takes positions 1 to 5, and that a passage has
at most 200 tokens. The rest is settled here: a window is a run of whole sentences of one document, over line ends too,
that begins with the labelled sentence or up to `places` - 1 sentences before it, and extends to the right by as many
sentences as fit. It exists if the labelled sentence is in it; so a sentence too long to fit is a window of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexing.labels.propagation import Labelled
from indexing.passages.passages import Splitter
from schemas.corpus import Document, Passage, Sentence
from schemas.labels import WindowLabel

Group = Literal["all", "center", "random"]
Fits: TypeAlias = Callable[[str, int, int], bool]
"""Whether text[start:end] is short enough for a passage: `Splitter.fits`."""
Ints: TypeAlias = NDArray[np.int64]
Run: TypeAlias = tuple[int, int]
"""Sentences first .. last - 1 of a document, from 0."""


def windows(labelled: int, last: Callable[[int], int], places: int = 5) -> list[Run]:
    """The windows of sentence number `labelled` (from 0) of a document's sentences, the one that begins with it first.

    `last` gives the sentence after the last of the window that begins with a sentence: `last_that_fits`, or `Line.lasts`.
    """
    firsts = range(labelled, max(labelled - places, -1), -1)
    runs = ((first, last(first)) for first in firsts)
    return [run for run in runs if run[1] > labelled]


def last_that_fits(text: str, sentences: Sequence[Sentence], first: int, fits: Fits) -> int:
    """The sentence after the last of the window that begins with sentence number `first`."""
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
    return [runs[_random(key, len(runs))]]


def _random(key: str, n: int) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % n


def passage(document: Document, sentences: Sequence[Sentence], run: Run) -> Passage:
    """A run of a document's sentences as a passage; its id is its place, '<doc_id>:<start>-<end>'."""
    inside = tuple(sentences[slice(*run)])
    start, end = inside[0].start, inside[-1].end
    name = f"{document.doc_id}:{start}-{end}"
    return Passage(name, document.doc_id, document.url, document.title, start, end, document.text[start:end], inside)


@dataclass(frozen=True)
class Line:
    """The sentences of several documents, one document after the other, each in reading order."""

    document: Ints
    """[n]: which of `texts`, ascending."""
    start: Ints
    end: Ints
    words: Ints
    """[n]: no more than its spaCy tokens: `least_tokens`."""
    texts: Sequence[str]
    """[documents]: '' where no sentence is labelled."""

    def lasts(self, labelled: Ints, places: int, splitter: Splitter) -> Ints:
        """For each sentence with which a window of a labelled one may begin: the sentence after the window's last.

        Equal to `last_that_fits` of each, but spaCy is asked once for a sentence, not once for a run. That adds up exactly,
        as it splits at white space first: a run's tokens are its sentences' and those of the white space between them.
        Only where two sentences have none between them are runs measured whole. Elsewhere than around labelled sentences
        what is returned means nothing.
        """
        limit = splitter.max_tokens
        begin = np.searchsorted(self.document, self.document, "left")
        end = np.searchsorted(self.document, self.document, "right")
        sums = np.concatenate([[0], np.cumsum(self.words)])
        beyond = np.minimum(np.searchsorted(sums, sums[labelled] + limit, "right"), end[labelled])
        change = np.zeros(len(self.start) + 1, np.int64)
        np.add.at(change, np.maximum(labelled - places + 1, begin[labelled]), 1)
        np.add.at(change, beyond, -1)
        asked = np.flatnonzero(np.cumsum(change)[:-1])
        tokens = np.full(len(self.start), limit + 1)
        tokens[asked] = splitter.counts(self.texts[self.document[n]][self.start[n] : self.end[n]] for n in asked)
        gaps, glued = self._gaps(asked, begin, splitter)
        sums = np.concatenate([[0], np.cumsum(tokens + gaps)])
        made = np.searchsorted(sums, sums[:-1] + gaps + limit, "right") - 1
        made = np.clip(made, np.arange(1, len(made) + 1), end)
        for n in asked[np.isin(self.document[asked], glued)]:
            text, last = self.texts[self.document[n]], int(n) + 1
            while last < end[n] and splitter.fits(text, int(self.start[n]), int(self.end[last])):
                last += 1
            made[n] = last
        return made

    def _gaps(self, asked: Ints, begin: Ints, splitter: Splitter) -> tuple[Ints, Ints]:
        """The tokens of the white space before each sentence asked for; and the documents where there once is none."""
        tokens = {"": 0}
        made, glued = np.zeros(len(self.start), np.int64), []
        for n in asked[asked > begin[asked]]:
            gap = self.texts[self.document[n]][self.end[n - 1] : self.start[n]]
            if gap not in tokens:
                (count,) = splitter.counts([f"x{gap}x"])
                tokens[gap] = count - 2
            made[n] = tokens[gap]
            if not gap:
                glued.append(self.document[n])
        return made, np.array(glued, np.int64)


def around(
    labelled: Ints, document: Ints, lasts: Ints, group: Group, places: int, keys: Callable[[int], str]
) -> tuple[Ints, Ints]:
    """`choose` of `windows` for many labelled sentences at once: each window's place in `labelled`, and its first sentence.

    `document` and `lasts` are of all sentences, as in Line; `keys` gives the key of a place. By place, then as `windows`.
    """
    firsts = labelled[:, None] - np.arange(places)  # [labelled, places]
    inside = firsts >= np.searchsorted(document, document[labelled], "left")[:, None]
    exists = inside & (lasts[np.where(inside, firsts, 0)] > labelled[:, None])
    if group == "center":
        off = np.abs(firsts + lasts[np.where(inside, firsts, 0)] - 1 - 2 * labelled[:, None])
        chosen = np.where(exists, off, np.iinfo(np.int64).max).argmin(1)
    elif group == "random":
        many = exists.sum(1)
        wanted = np.array([_random(keys(row), int(n)) for row, n in enumerate(many)], np.int64)
        chosen = (exists & (np.cumsum(exists, 1) == wanted[:, None] + 1)).argmax(1)
    if group != "all":
        exists = np.arange(places) == chosen[:, None]
    rows, place = np.nonzero(exists)
    return rows, firsts[rows, place]


_WORD = r"[^\s\x0b\x1c-\x1f\x{85}\p{Z}]+"


def least_tokens(texts: pa.Array) -> Ints:
    """Of each text the runs of what is not white space: spaCy makes at least one token of each."""
    found: Ints = pc.count_substring_regex(texts, _WORD).to_numpy().astype(np.int64)
    return found


def window_labels(
    labelled: Labelled, texts: Sequence[str], splitter: Splitter, group: Group, places: int, seed: int
) -> pa.Table:
    """The windows around labelled sentences, as WindowLabel: by document, question id, sentence id, then as `windows`.

    `texts` are of the documents of `labelled.sentences`; '' will do where none of its sentences has a label.
    """
    here, rows = labelled.sentences, labelled.rows()
    lasts = Line(here.of, here.start, here.end, least_tokens(here.text), texts).lasts(labelled.sentence[rows], places, splitter)
    questions = labelled.questions.to_pylist() if group == "random" else []

    def key(place: int) -> str:
        row = rows[place]
        return f"{seed}:{questions[labelled.question[row]]}:{here.sentence_id[int(labelled.sentence[row])].as_py()}"

    of, first = around(labelled.sentence[rows], here.of, lasts, group, places, key)
    last, question, sentence = lasts[first], labelled.question[rows[of]], labelled.sentence[rows[of]]
    correct = np.sort((labelled.question * len(here.of) + labelled.sentence)[labelled.label == 1])
    at = question * len(here.of)
    label = np.searchsorted(correct, at + last) > np.searchsorted(correct, at + first)
    doc_id = here.doc_ids(here.of[first])
    start, end = pa.array(here.start[first]), pa.array(here.end[last - 1])
    span = pc.binary_join_element_wise(start.cast(pa.string()), end.cast(pa.string()), "-")
    edges = np.concatenate([[0], np.cumsum(last - first)])
    inside = np.arange(edges[-1]) - np.repeat(edges[:-1] - first, last - first)
    columns = [
        labelled.questions.take(pa.array(question)),
        pc.binary_join_element_wise(doc_id, span, ":"),
        doc_id,
        start,
        end,
        pa.array(label.astype(np.int8)),
        here.sentence_id.take(pa.array(sentence)),
        pa.array((sentence - first + 1).astype(np.int32)),
        pa.ListArray.from_arrays(pa.array(edges, pa.int32()), here.sentence_id.take(pa.array(inside))),
    ]
    return pa.Table.from_arrays(columns, schema=WindowLabel.schema())
