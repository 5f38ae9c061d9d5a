"""A document's text -> sentences and passages, each an exact span of it: text[start:end] is the sentence, or
the passage.

Token limits are spaCy's tokens (WQA §3.3: at most 200); in scripts that are written without blanks, of which
spaCy's English makes one token, two characters are a token. To tokenise everything would be most of the cost
of reading a crawl, so an upper bound, made of runs of letters and digits, is tried first, and spaCy runs only
beyond it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, groupby, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from answermill.indexing.passages.characters import Counts, Extra, Places
from answermill.indexing.passages.passage_table import Cut, passage_table
from answermill.indexing.passages.sentences import Span, may_have_large_marks, sentence_spans, stripped
from answermill.schemas.corpus import Document, Passage, Sentence
from answermill.schemas.scripts import UNSPACED

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_RUN = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\W\d_{UNSPACED}]+|\d+|\S")
"""What spaCy splits no further, except by its list of exceptions."""
_GAP = re.compile(r"\s{2,}|[^\S ]")  # white space beyond one blank between words: spaCy makes tokens of it
_WORD = re.compile(rf"[{UNSPACED}]{{1,2}}[^\w\s]*|[^\s{UNSPACED}]+")
"""A word between blanks; in scripts that are written without them, two characters and the marks behind."""
_CHARACTERS_PER_TOKEN = 20  # a longer run is cut before spaCy reads it: base64, minified code
_NOT_SPACYS = re.compile(rf"(?P<signs>(?:[^\w\s{UNSPACED}]|_){{50,}})|[{UNSPACED}]+")
"""Signs beside each other, each of which is counted as a token: spaCy looks at all that are left for each one
that it takes off, and so takes seconds for a line of a thousand; and runs without blanks."""


@cache
def _english() -> tuple[Language, dict[str, int]]:
    """(spaCy's English tokenizer, one for this process; for each word in its list, its tokens beyond the
    word's runs: 1 for 'cannot', which is two tokens)."""
    import spacy  # takes seconds, so not at the top

    nlp = spacy.blank("en")
    rules = nlp.tokenizer.rules.items()  # type: ignore[union-attr]
    return nlp, {key: extra for key, pieces in rules if (extra := len(pieces) - len(_RUN.findall(key))) > 0}


class Spans(NamedTuple):
    """Sentences of a text: [sentences] each."""

    starts: Places
    ends: Places
    tokens: npt.NDArray[np.int32]
    """Upper bounds of their spaCy tokens."""
    words: npt.NDArray[np.int32]


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
        starts, ends, *_ = self._spans(text, language)
        return [
            Sentence(f"{doc_id}@{start}", start, end, text[start:end])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def split(self, document: Document) -> list[Passage]:
        """The passages of a document, in reading order."""
        return Passage.rows(self.table(Document.table([document])))

    def table(self, documents: pa.Table) -> pa.Table:
        """The passages of documents, in reading order: rows of Passage, of rows of Document."""
        texts, languages = (documents[name].to_pylist() for name in ("text", "language"))
        tables, start = [Passage.schema().empty_table()], 0
        for (language, _), run in groupby(zip(languages, map(may_have_large_marks, texts), strict=True)):
            end = start + len(list(run))
            tables.append(self._of_language(language, documents[start:end], texts[start:end]))
            start = end
        return pa.concat_tables(tables)

    def _of_language(self, language: str, documents: pa.Table, texts: Sequence[str]) -> pa.Table:
        """The passages of documents of one language, with their `texts`. No sentence crosses a line, so that
        they are cut as one text, in few calls."""
        text = "\n".join(texts)
        edges = list(accumulate((len(one) + 1 for one in texts), initial=0))
        sentences = self._spans(text, language)
        cuts = (self._blocks if self._mode == "dpr" else self._packed)(text, edges, sentences)
        return passage_table(documents, text, edges, sentences[:2], cuts)

    def fits(self, text: str, start: int, end: int) -> bool:
        """True if text[start:end] has at most max_tokens spaCy tokens."""
        part = text[start:end]
        if self._bound(part) <= self._max_tokens:
            return True
        with self._nlp.memory_zone():
            return self._count(part) <= self._max_tokens

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    def counts(self, texts: Iterable[str]) -> list[int]:
        """The number of spaCy tokens of each text; of many signs beside each other each is one, and in
        scripts that are written without blanks two characters are."""
        with self._nlp.memory_zone():
            return [self._count(text) for text in texts]

    def _spans(self, text: str, language: str) -> Spans:
        """The sentences of a text, those of too many tokens in several spans."""
        counts = Counts(text, self._extra_words)
        spans = list(sentence_spans(text, language))
        starts, ends = _places(spans)
        tokens = counts.tokens(starts, ends)
        if tokens.max(initial=0) <= self._max_tokens:
            return Spans(starts, ends, tokens, counts.words(starts, ends))

        short = list[Span]()
        with self._nlp.memory_zone():
            for span, bound in zip(spans, tokens.tolist(), strict=True):
                short += [span] if bound <= self._max_tokens else self._pieces(text, *span)
        starts, ends = _places(short)
        tokens = counts.tokens(starts, ends)
        for n in np.flatnonzero(counts.cut(starts, ends)).tolist():  # pieces of a long run
            tokens[n] = self._bound(text[slice(*short[n])])

        return Spans(starts, ends, tokens, counts.words(starts, ends))

    def _pieces(self, text: str, start: int, end: int) -> Iterator[Span]:
        for part in _short_enough(text, start, end, _CHARACTERS_PER_TOKEN * self._max_tokens):
            yield from self._cut(text, *part)

    def _packed(self, text: str, edges: Sequence[int], sentences: Spans) -> Iterator[Cut]:
        """Whole sentences, passages of about equal length near `words` words, by the bounds of tokens never
        above max_tokens.

        For each passage, the remaining sentences of its document are planned anew as n passages of equal
        length, so that no small rest remains.
        """
        starts, ends = sentences.starts.tolist(), sentences.ends.tolist()
        # [n]: words before sentence n, and up to its middle.
        words = [0, *np.cumsum(sentences.words).tolist()]
        middles = (np.cumsum(sentences.words) - sentences.words / 2).tolist()
        # [n]: tokens before sentence n. + 1: a line end between two sentences is a token.
        tokens = [0, *np.cumsum(sentences.tokens + 1).tolist()]

        for of_document, stop in pairwise(np.searchsorted(starts, edges).tolist()):
            first = of_document
            while first < stop:
                remaining = words[stop] - words[first]
                passages = max(
                    1,
                    round(remaining / self._words),
                    math.ceil((tokens[stop] - tokens[first]) / self._max_tokens),
                )
                last = stop
                if passages > 1:
                    # A sentence is in the passage if its middle is before the target.
                    target = words[first] + remaining / passages
                    wanted = bisect_right(middles, target, first, stop)
                    most = bisect_right(tokens, tokens[first] + self._max_tokens, first, stop + 1) - 1
                    last = max(first + 1, min(wanted, most))

                yield Cut(starts[first], ends[last - 1], first)
                first = last

    def _blocks(self, text: str, edges: Sequence[int], sentences: Spans) -> Iterator[Cut]:
        """Blocks of exactly `words` words, a document's last may be shorter, each with the sentences that
        start in it."""
        starts = sentences.starts.tolist()
        for edge, after in pairwise(edges):
            words = [match.span() for match in _WORD.finditer(text, edge, after)]
            for first in range(0, len(words), self._words):
                block = words[first : first + self._words]
                start, end = block[0][0], block[-1][1]
                yield Cut(start, end, bisect_left(starts, start))

    # Tokens.

    def _count(self, text: str) -> int:
        return sum(len(tokens) for _, tokens in self._tokenised(text))

    def _starts(self, text: str) -> list[int]:
        """Where each token of a text starts, as `counts` counts them."""
        return [
            start + (token if isinstance(token, int) else token.idx)
            for start, tokens in self._tokenised(text)
            for token in tokens
        ]

    def _tokenised(self, text: str) -> Iterator[tuple[int, range | Doc]]:
        """(start, tokens) of each part of a text: spaCy's, or the places in it where our own begin."""
        position = 0
        for run in _NOT_SPACYS.finditer(text):
            yield position, self._nlp.tokenizer(text[position : run.start()])
            yield run.start(), range(0, run.end() - run.start(), 1 if run["signs"] else 2)
            position = run.end() + text.startswith(" ", run.end())  # one blank between words is no token
        yield position, self._nlp.tokenizer(text[position:])

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

    def _cut(self, text: str, start: int, end: int) -> Iterator[Span]:
        """The span, or if it has too many tokens, pieces of about equal length that end at token edges, at
        blanks if possible."""
        part = text[start:end]
        if self._bound(part) <= self._max_tokens:
            yield start, end
            return

        starts = self._starts(part)
        pieces = math.ceil(len(starts) / self._max_tokens)
        edges = [starts[round(n * len(starts) / pieces)] for n in range(1, pieces)]
        for left, right in pairwise([0, *(_at_blank(part, edge) for edge in edges), len(part)]):
            span = stripped(text, start + left, start + right)
            if span == (start, end):
                yield span
            elif span is not None:
                # A blank before the edge may move too much over, and a piece alone may have other tokens.
                yield from self._cut(text, *span)


def _places(spans: Sequence[Span]) -> tuple[Places, Places]:
    """(the starts, the ends) of spans."""
    starts, ends = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2).T
    return starts, ends


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
