"""Text to words, and words to rows of an embedding table (Cosinet §5.1: lower-cased, split by spaCy).

spaCy splits at white space first and then each piece by its rules, and no rule looks past the piece. So the
pieces are cached: most occur many times, and a look-up takes the place of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

import spacy
from spacy.tokenizer import Tokenizer

from answermill.ranking.word_vectors.embeddings import Embeddings

PLAIN = re.compile(r"([A-Za-z]*[a-z])([.,;:?!]?)")
"""Letters, the last one small, and at most one mark after them: spaCy's rules separate the two, unless it
lists the piece."""


@cache
def english() -> Tokenizer:
    """spaCy's English tokenizer, one for this process, since building it takes a tenth of a second. Do not
    change its rules."""
    return spacy.blank("en").tokenizer


class Words:
    """Splitter of text into words: the lower-cased tokens of spaCy's English tokenizer, without white space.

    At most `limit` pieces are cached; then all are dropped, and spaCy's own cache with them.
    """

    def __init__(self, limit: int = 1 << 18) -> None:
        self._limit = limit
        self._tokenizer = english()
        self._known: dict[str, tuple[str, ...]] = {}

    def _forget(self) -> None:
        english.cache_clear()
        self._tokenizer, self._known = english(), {}

    def tokens(self, text: str) -> list[str]:
        return [token for piece in text.split() for token in self.split(piece)]

    def split(self, piece: str) -> tuple[str, ...]:
        """Words of a piece, which has no white space in it."""
        if piece not in self._known:
            if len(self._known) >= self._limit:
                self._forget()
            self._known[piece] = self._split(piece)
        return self._known[piece]

    def _split(self, piece: str) -> tuple[str, ...]:
        plain, listed = PLAIN.fullmatch(piece), self._tokenizer.rules
        if plain and piece not in listed and plain[1] not in listed:
            return tuple(part.lower() for part in plain.groups() if part)
        return tuple(token.lower_ for token in self._tokenizer(piece))


class Lexicon:
    """Map of texts to rows of the embedding table: 1 … V for the words it holds; row 0 stands for no word.

    An unknown word gets a number above V, so that the same unknown word in question and candidate can be
    recognised. Such numbers have a meaning within one call of `rows` only.
    """

    def __init__(self, embeddings: Embeddings, limit: int = 1 << 18) -> None:
        self._embeddings, self._limit = embeddings, limit
        self._words = Words(limit)
        self._unknown: dict[str, int] = {}
        self._pieces: dict[str, tuple[int, ...]] = {}

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """One list of rows per text; equal texts share theirs."""
        if len(self._pieces) >= self._limit:
            self._pieces, self._unknown = {}, {}
        seen: dict[str, list[int]] = {}
        for text in texts:
            if text not in seen:
                seen[text] = self._rows(text.split())
        return [seen[text] for text in texts]

    def _rows(self, pieces: list[str]) -> list[int]:
        try:
            return list(chain.from_iterable(map(self._pieces.__getitem__, pieces)))
        except KeyError:
            for piece in pieces:
                if piece not in self._pieces:
                    self._pieces[piece] = self._rows_of(self._words.split(piece))
        return list(chain.from_iterable(map(self._pieces.__getitem__, pieces)))

    def _rows_of(self, tokens: Sequence[str]) -> tuple[int, ...]:
        above = len(self._embeddings.words) + 1
        rows = zip(tokens, self._embeddings.rows(tokens).tolist(), strict=True)
        return tuple(
            row or self._unknown.setdefault(token, above + len(self._unknown)) for token, row in rows
        )
