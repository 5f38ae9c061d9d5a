"""Windows: more passages around a labelled sentence, for training (WQA §3.3; groups: WQA Table 3). Pure
functions.

The paper says that a sliding window makes them, that the labelled sentence takes positions 1 to 5, and that a
passage has at most 200 tokens. The rest is our choice: a window is a run of whole sentences of one document,
over line ends too, that begins with the labelled sentence or up to `places` - 1 sentences before it, and
extends to the right by as many sentences as fit. It exists if the labelled sentence is in it; so a sentence
too long to fit is a window by itself.
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

from answermill.indexing.labels.hash_join import Ints, consecutive
from answermill.indexing.labels.propagation import LabelledSentences
from answermill.indexing.passages.passages import Splitter
from answermill.schemas.corpus import Document, Passage, Sentence
from answermill.schemas.labels import WindowLabel

Group = Literal["all", "center", "random"]
Fits: TypeAlias = Callable[[str, int, int], bool]
"""(text, start, end) -> True if text[start:end] is short enough for a passage: `Splitter.fits`."""
SentenceRun: TypeAlias = tuple[int, int]
"""Sentences first .. last - 1 of a document, from 0."""


def windows(labelled: int, last: Callable[[int], int], places: int = 5) -> list[SentenceRun]:
    """The windows of sentence number `labelled` (from 0) of a document's sentences, the one that begins with
    it first.

    `last` maps the first sentence of a window to the sentence after its last: `last_that_fits`, or a look-up
    in `SentenceLine.lasts`.

    >>> windows(3, {1: 3, 2: 5, 3: 6}.__getitem__, places=3)
    [(3, 6), (2, 5)]
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


def choose(runs: Sequence[SentenceRun], labelled: int, group: Group, key: str) -> list[SentenceRun]:
    """A group of the windows `runs` of sentence number `labelled`, at least one (WQA Table 3).

    'all' windows; the one in whose 'center' the sentence is, or the first of those nearest to that; or a
    'random' one, which depends on `key` alone, not on any order.

    >>> choose([(3, 6), (2, 5), (1, 4)], 3, "center", "")
    [(2, 5)]
    """
    if group == "all":
        return list(runs)
    if group == "center":
        return [min(runs, key=lambda run: abs(run[0] + run[1] - 1 - 2 * labelled))]
    return [runs[_draw(key, len(runs))]]


def _draw(key: str, n: int) -> int:
    """A number from 0 to n - 1 that depends on nothing but `key`."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % n


def passage(document: Document, sentences: Sequence[Sentence], run: SentenceRun) -> Passage:
    """A run of a document's sentences as a passage; its id is its place, '<doc_id>:<start>-<end>'."""
    inside = tuple(sentences[slice(*run)])
    start, end = inside[0].start, inside[-1].end
    name = f"{document.doc_id}:{start}-{end}"
    return Passage(
        name, document.doc_id, document.url, document.title, start, end, document.text[start:end], inside
    )


@dataclass(frozen=True)
class SentenceLine:
    """The sentences of several documents, one document after the other, each in reading order."""

    document: Ints
    """[sentences]: place of the sentence's document in `texts`, ascending."""
    start: Ints
    """[sentences]: start of the sentence in its document's text."""
    end: Ints
    """[sentences]"""
    words: Ints
    """[sentences]: lower bound of the sentence's spaCy tokens, from `least_tokens`."""
    texts: Sequence[str]
    """[documents]: '' if none of the document's sentences is labelled."""

    def lasts(self, labelled: Ints, places: int, splitter: Splitter) -> Ints:
        """[sentences]: the sentence after the last of the window that begins with a sentence.

        Only the sentences with which a window of one of the `labelled` sentences may begin have a meaningful
        value.

        The values equal those of `last_that_fits`, but spaCy tokenizes each sentence once, not once for each
        run. That adds up exactly, because spaCy splits at white space first: a run's tokens are those of its
        sentences and of the white space between them. Only in documents that have two sentences without white
        space between them are runs tokenized whole.
        """
        limit = splitter.max_tokens
        # [sentences]: the first of the same document.
        first = np.searchsorted(self.document, self.document, "left")
        end = np.searchsorted(self.document, self.document, "right")

        # Sentences that no window can reach keep more tokens than a window may have.
        measured = self._within_reach(labelled, places, limit, first, end)
        tokens = np.full(len(self.start), limit + 1)
        tokens[measured] = splitter.counts(
            self.texts[self.document[n]][self.start[n] : self.end[n]] for n in measured
        )
        gaps, glued = self._gaps(measured, first, splitter)

        # A window from n has the tokens up to its last sentence, less the gap before n: a search in the sums
        # finds the last.
        # [n]: tokens before sentence n, its gap not counted.
        sums = np.concatenate([[0], np.cumsum(tokens + gaps)])
        lasts = np.searchsorted(sums, sums[:-1] + gaps + limit, "right") - 1
        lasts = np.clip(lasts, np.arange(1, len(lasts) + 1), end)

        for n in measured[np.isin(self.document[measured], glued)]:
            text, last = self.texts[self.document[n]], int(n) + 1
            while last < end[n] and splitter.fits(text, int(self.start[n]), int(self.end[last])):
                last += 1
            lasts[n] = last

        return lasts

    def _within_reach(self, labelled: Ints, places: int, limit: int, first: Ints, end: Ints) -> Ints:
        """The sentences that may be in a window of a labelled one, ascending: `places` - 1 before it, and
        after it as many as have at most `limit` words together."""
        sums = np.concatenate([[0], np.cumsum(self.words)])
        beyond = np.minimum(np.searchsorted(sums, sums[labelled] + limit, "right"), end[labelled])
        # From one sentence to the next: change of the number of labelled sentences whose reach holds it.
        change = np.zeros(len(self.start) + 1, np.int64)
        np.add.at(change, np.maximum(labelled - places + 1, first[labelled]), 1)
        np.add.at(change, beyond, -1)
        return np.flatnonzero(np.cumsum(change)[:-1])

    def _gaps(self, measured: Ints, first: Ints, splitter: Splitter) -> tuple[Ints, Ints]:
        """The tokens [sentences] of the white space before each measured sentence, and the documents that
        lack such space."""
        tokens = {"": 0}
        gaps, glued = np.zeros(len(self.start), np.int64), []
        for n in measured[measured > first[measured]]:
            gap = self.texts[self.document[n]][self.end[n - 1] : self.start[n]]
            if gap not in tokens:
                (count,) = splitter.counts([f"x{gap}x"])
                tokens[gap] = count - 2
            gaps[n] = tokens[gap]
            if not gap:
                glued.append(self.document[n])
        return gaps, np.array(glued, np.int64)


@dataclass(frozen=True, slots=True)
class WindowRule:
    """The rule for the windows of a labelled sentence."""

    group: Group
    places: int
    """The labelled sentence is one of a window's first `places`."""
    seed: int = 0
    """Seed for the draws of group 'random'."""


def choose_many(
    labelled: Ints, document: Ints, lasts: Ints, rule: WindowRule, keys: Callable[[int], str]
) -> tuple[Ints, Ints]:
    """`choose` of `windows` for many labelled sentences at once: each window's place in `labelled`, and its
    first sentence.

    `document` and `lasts` are of all sentences, as in SentenceLine; `keys` maps a place in `labelled` to the
    key of `choose`. By place, then in the order of `windows`.

    Sentences 0 to 2 are of one document, 3 is of another, and windows have at most two sentences:

    >>> place, first = choose_many(np.array([1, 3]), np.array([0, 0, 0, 1]), np.array([2, 3, 3, 4]), WindowRule("all", 2), str)
    >>> place.tolist(), first.tolist()
    ([0, 0, 1], [1, 0, 3])
    """
    firsts = labelled[:, None] - np.arange(rule.places)  # [labelled, places]
    inside = firsts >= np.searchsorted(document, document[labelled], "left")[:, None]  # in the same document
    exists = inside & (lasts[np.where(inside, firsts, 0)] > labelled[:, None])

    if rule.group == "center":
        # Twice the distance to the middle.
        distance = np.abs(firsts + lasts[np.where(inside, firsts, 0)] - 1 - 2 * labelled[:, None])
        chosen = np.where(exists, distance, np.iinfo(np.int64).max).argmin(1)
    elif rule.group == "random":
        drawn = np.array([_draw(keys(row), int(count)) for row, count in enumerate(exists.sum(1))], np.int64)
        chosen = (exists & (np.cumsum(exists, 1) == drawn[:, None] + 1)).argmax(1)

    if rule.group != "all":
        exists = np.arange(rule.places) == chosen[:, None]
    rows, place = np.nonzero(exists)
    return rows, firsts[rows, place]


_WORD = r"[^\s\x0b\x1c-\x1f\x{85}\p{Z}]+"


def least_tokens(texts: pa.Array) -> Ints:
    """[texts]: the number of words between white space; spaCy makes at least one token of each.

    >>> least_tokens(pa.array(["It ended.", ""])).tolist()
    [2, 0]
    """
    words: Ints = pc.count_substring_regex(texts, _WORD).to_numpy().astype(np.int64)
    return words


def window_labels(
    labelled: LabelledSentences, texts: Sequence[str], splitter: Splitter, rule: WindowRule
) -> pa.Table:
    """The windows around labelled sentences, as WindowLabel: by document, question id, sentence id, then as
    `windows`.

    `texts` are those of the documents of `labelled.sentences`, or '' if none of a document's sentences has a
    label.
    """
    sentences, rows = labelled.sentences, labelled.decided()
    line = SentenceLine(
        sentences.document, sentences.start, sentences.end, least_tokens(sentences.text), texts
    )
    lasts = line.lasts(labelled.sentence[rows], rule.places, splitter)
    questions = labelled.questions.to_pylist() if rule.group == "random" else []

    def key(place: int) -> str:
        row = rows[place]
        return f"{rule.seed}:{questions[labelled.question[row]]}:{sentences.sentence_id[int(labelled.sentence[row])].as_py()}"

    place, first = choose_many(labelled.sentence[rows], sentences.document, lasts, rule, key)

    last, question, sentence = lasts[first], labelled.question[rows[place]], labelled.sentence[rows[place]]
    doc_id = sentences.doc_ids(sentences.document[first])
    start, end = pa.array(sentences.start[first]), pa.array(sentences.end[last - 1])
    span = pc.binary_join_element_wise(start.cast(pa.string()), end.cast(pa.string()), "-")

    # Window n holds the entries edges[n] .. edges[n + 1] - 1.
    edges = np.concatenate([[0], np.cumsum(last - first)])
    inside = consecutive(first, last - first)

    columns = [
        labelled.questions.take(pa.array(question)),
        pc.binary_join_element_wise(doc_id, span, ":"),
        doc_id,
        start,
        end,
        pa.array(_holds_correct(labelled, question, first, last).astype(np.int8)),
        sentences.sentence_id.take(pa.array(sentence)),
        pa.array((sentence - first + 1).astype(np.int32)),
        pa.ListArray.from_arrays(pa.array(edges, pa.int32()), sentences.sentence_id.take(pa.array(inside))),
    ]

    return pa.Table.from_arrays(columns, schema=WindowLabel.schema())


def _holds_correct(labelled: LabelledSentences, question: Ints, first: Ints, last: Ints) -> NDArray[np.bool_]:
    """[windows]: True if a sentence first .. last - 1 is labelled 1 for the question."""
    size = len(labelled.sentences.document)
    correct = np.sort((labelled.question * size + labelled.sentence)[labelled.label == 1])
    holds: NDArray[np.bool_] = np.searchsorted(correct, question * size + last) > np.searchsorted(
        correct, question * size + first
    )
    return holds
