"""A document's text -> sentences and passages, each an exact span of it: text[start:end] is the sentence, or
the passage.

Token limits are spaCy's tokens (WQA §3.3: at most 200). To tokenise everything would be most of the cost of
reading a crawl, so an upper bound, made of runs of letters and digits, is tried first, and spaCy runs only
beyond it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from answermill.indexing.passages.characters import Counts, Extra
from answermill.indexing.passages.sentences import Span, sentence_spans, stripped
from answermill.schemas.corpus import Document, Passage, Sentence

if TYPE_CHECKING:
    from spacy.language import Language

_RUN = re.compile(r"[^\W\d_]+|\d+|\S")  # spaCy splits none of these, except by its list of exceptions
_GAP = re.compile(r"\s{2,}|[^\S ]")  # white space beyond one blank between words: spaCy makes tokens of it
_CHARACTERS_PER_TOKEN = 20  # a longer run is cut before spaCy reads it: base64, minified code


@cache
def _english() -> tuple[Language, dict[str, int]]:
    """(spaCy's English tokenizer, one for this process; for each word in its list, its tokens beyond the
    word's runs: 1 for 'cannot', which is two tokens)."""
    import spacy  # takes seconds, so not at the top

    nlp = spacy.blank("en")
    rules = nlp.tokenizer.rules.items()  # type: ignore[union-attr]
    return nlp, {key: extra for key, pieces in rules if (extra := len(pieces) - len(_RUN.findall(key))) > 0}


class Splitter:
    """Cuts documents into sentences and passages. Loads spaCy's English tokenizer, once in a process."""

    def __init__(
        self, max_tokens: int = 200, words: int = 100, mode: Literal["sentences", "dpr"] = "sentences"
    ) -> None:
        """Passages of whole sentences near `words` words and of at most `max_tokens` spaCy tokens; or, in
        'dpr' mode, disjoint blocks of exactly `words` words (DPR §4.1), whatever sentences they cut."""
        if mode not in ("sentences", "dpr"):
            raise ValueError(f"mode is {mode!r}; known: 'sentences', 'dpr'")
        if max_tokens < 10 or words < 1:
            raise ValueError(
                f"max_tokens must be at least 10 and words at least 1, not {max_tokens} and {words}"
            )
        self._nlp, self._extra = _english()
        self._extra_words = Extra(self._extra)
        self._max_tokens = max_tokens
        self._words = words
        self._mode = mode

    def sentences(self, doc_id: str, text: str, language: str = "") -> list[Sentence]:
        """The sentences of a text in a language; one of more than max_tokens tokens is cut into several."""
        spans, _ = self._spans(text, language)
        return _sentences(doc_id, text, spans)

    def split(self, document: Document) -> list[Passage]:
        """The passages of a document, in reading order."""
        spans, tokens = self._spans(document.text, document.language)
        sentences = _sentences(document.doc_id, document.text, spans)
        packed = (
            self._blocks(document.text, sentences)
            if self._mode == "dpr"
            else self._packed(document.text, sentences, tokens)
        )

        return [
            Passage(
                passage_id=f"{document.doc_id}#{n}",
                doc_id=document.doc_id,
                url=document.url,
                title=document.title,
                start=start,
                end=end,
                text=document.text[start:end],
                sentences=tuple(inside),
                source_file=document.source_file,
                source_offset=document.source_offset,
                source_record=document.source_record,
            )
            for n, (start, end, inside) in enumerate(packed)
        ]

    def fits(self, text: str, start: int, end: int) -> bool:
        """True if text[start:end] has at most max_tokens spaCy tokens."""
        part = text[start:end]
        return self._bound(part) <= self._max_tokens or len(self._token_starts(part)) <= self._max_tokens

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    def counts(self, texts: Iterable[str]) -> list[int]:
        """The number of spaCy tokens of each text."""
        with self._nlp.memory_zone():
            return [len(self._nlp.tokenizer(text)) for text in texts]

    def _spans(self, text: str, language: str) -> tuple[Sequence[Span], Sequence[int]]:
        """(the sentences of a text, those of too many tokens in several spans; the bound of tokens of
        each)."""
        spans = list(sentence_spans(text, language))
        if not spans:
            return [], []

        counts = Counts(text, self._extra_words)
        places = np.array(spans).T
        tokens: list[int] = counts.tokens(*places).tolist()
        if max(tokens) <= self._max_tokens:
            return spans, tokens

        short = list[Span]()
        for (start, end), bound in zip(spans, tokens, strict=True):
            short += [(start, end)] if bound <= self._max_tokens else self._pieces(text, start, end)
        places = np.array(short).T
        tokens = counts.tokens(*places).tolist()
        for n in np.flatnonzero(counts.cut(*places)).tolist():  # pieces of a long run
            tokens[n] = self._bound(text[slice(*short[n])])

        return short, tokens

    def _pieces(self, text: str, start: int, end: int) -> Iterator[Span]:
        for part in _short_enough(text, start, end, _CHARACTERS_PER_TOKEN * self._max_tokens):
            if self.fits(text, *part):
                yield part
            else:
                yield from self._cut(text, *part)

    def _packed(
        self, text: str, sentences: Sequence[Sentence], bounds: Sequence[int]
    ) -> Iterator[tuple[int, int, Sequence[Sentence]]]:
        """Whole sentences, passages of about equal length near `words` words, by the `bounds` of tokens never
        above max_tokens.

        For each passage, the remaining sentences are planned anew as n passages of equal length, so that no
        small rest remains.
        """
        # One blank is between two words of a stored text.
        words = [text.count(" ", s.start, s.end) + 1 for s in sentences]
        # [i]: words of sentences i and later.
        words_after = list(accumulate(reversed(words), initial=0))[::-1]
        # + 1: a line end between two sentences is a token.
        tokens_after = list(accumulate((bound + 1 for bound in reversed(bounds)), initial=0))[::-1]

        first = 0
        while first < len(sentences):
            remaining = words_after[first]  # words
            passages = max(
                1, round(remaining / self._words), math.ceil(tokens_after[first] / self._max_tokens)
            )
            target = remaining / passages
            last = first + 1  # sentences first .. last - 1
            size = words[first]

            while last < len(sentences) and (passages == 1 or size + words[last] / 2 <= target):
                if tokens_after[first] - tokens_after[last + 1] > self._max_tokens:
                    break
                size += words[last]
                last += 1

            yield sentences[first].start, sentences[last - 1].end, sentences[first:last]
            first = last

    def _blocks(
        self, text: str, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[int, int, Sequence[Sentence]]]:
        """Blocks of exactly `words` words, the last may be shorter, each with the sentences that start in
        it."""
        words = [m.span() for m in re.finditer(r"\S+", text)]
        starts = [s.start for s in sentences]
        for first in range(0, len(words), self._words):
            block = words[first : first + self._words]
            start, end = block[0][0], block[-1][1]
            yield start, end, sentences[bisect_left(starts, start) : bisect_left(starts, end)]

    # Tokens.

    def _bound(self, text: str) -> int:
        """An upper bound of the spaCy tokens of the text: runs, line ends (a token each), and the extra
        tokens of exceptions."""
        runs = _RUN.findall(text)
        count = len(runs)
        if "  " in text or not text.isprintable():
            count += sum(len(gap) for gap in _GAP.findall(text))
        if not self._extra.keys().isdisjoint(runs):
            count += sum(self._extra.get(run, 0) for run in runs)
        return count

    def _token_starts(self, text: str) -> list[int]:
        with self._nlp.memory_zone():
            return [token.idx for token in self._nlp.tokenizer(text)]

    def _cut(self, text: str, start: int, end: int) -> Iterator[Span]:
        """A sentence of too many tokens in pieces of about equal length that end at token edges, at blanks if
        possible."""
        part = text[start:end]
        starts = self._token_starts(part)
        pieces = math.ceil(len(starts) / self._max_tokens)
        edges = [starts[round(n * len(starts) / pieces)] for n in range(1, pieces)]
        for left, right in pairwise([0, *(_at_blank(part, edge) for edge in edges), len(part)]):
            span = stripped(text, start + left, start + right)
            if span is None:
                continue
            if span == (start, end) or self.fits(text, *span):
                yield span
            else:  # a blank before the edge moved too much over, or a piece alone has other tokens
                yield from self._cut(text, *span)


def _sentences(doc_id: str, text: str, spans: Iterable[Span]) -> list[Sentence]:
    return [Sentence(f"{doc_id}@{start}", start, end, text[start:end]) for start, end in spans]


def _short_enough(text: str, start: int, end: int, size: int) -> Iterator[Span]:
    """The span in pieces of at most `size` characters, cut at blanks if possible."""
    while end - start > size:
        edge = start + _at_blank(text[start : start + size], size)
        if (span := stripped(text, start, edge)) is not None:
            yield span
        start = edge
    if (span := stripped(text, start, end)) is not None:
        yield span


def _at_blank(text: str, edge: int) -> int:
    """The end of the last white space in the half before `edge`, or `edge` if there is none."""
    for place in range(edge, edge // 2, -1):
        if text[place - 1].isspace():
            return place
    return edge
