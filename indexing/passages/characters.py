"""Kinds of a text's characters, by a table, and counts of words and tokens in its spans: one pass over a text
in place of a regular expression for each of its sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

OTHER, SPACE, LETTER, DIGIT, ALPHABETIC, GAP = 0, 1, 2, 4, 8, 16
"""White space, what `[^\\W\\d_]` and `\\d` match, or none of these; beside these, what `str.isalpha` is true
for, and white space that is no blank."""
_RUN_KIND = SPACE | LETTER | DIGIT
Kinds = npt.NDArray[np.uint8]  # [characters]
Places = npt.NDArray[np.int64]  # [spans]


def _kind(character: str) -> int:
    if character.isspace():
        return SPACE if character == " " else SPACE | GAP
    kind = ALPHABETIC if character.isalpha() else OTHER
    if character.isdecimal():
        return kind | DIGIT
    return kind | (LETTER if character.isalnum() else OTHER)


_ASCII = bytes(_kind(chr(code)) for code in range(128)) + bytes(128)


@cache
def _basic_plane() -> Kinds:
    return np.array([_kind(chr(code)) for code in range(0x10000)], np.uint8)


def kinds(text: str) -> Kinds:
    """The kind of each character of a text without lone surrogates.

    >>> kinds("a 1.").tolist()
    [10, 1, 4, 0]
    """
    if text.isascii():
        return np.frombuffer(text.encode("ascii").translate(_ASCII), np.uint8)

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    if (beyond := np.flatnonzero(codes >= 0x10000)).size:
        result = _basic_plane()[np.where(codes < 0x10000, codes, 0)]
        result[beyond] = [_kind(text[place]) for place in beyond.tolist()]
        return result
    return _basic_plane()[codes]


class Extra:
    """Words that spaCy takes apart, such as 'cannot': each with its tokens beyond one."""

    def __init__(self, words: Mapping[str, int]) -> None:
        self.words = {word: extra for word, extra in words.items() if word.isalpha()}
        self._encoded = frozenset(word.encode("ascii") for word in self.words)
        letters = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
        self._spaced = bytes(code if code in letters else ord(" ") for code in range(256))

    def places(self, text: str) -> list[tuple[int, int]]:
        """(start, extra tokens) of each of the words in a text.

        >>> Extra({"cannot": 1}).places("I cannot, cannots.")
        [(2, 1)]
        """
        # Few texts have any. A byte that is no ASCII letter ends a word here, so that none is overlooked.
        pieces = text.encode("utf-8", "replace").translate(self._spaced).split()
        if self._encoded.isdisjoint(pieces):
            return []
        words = "|".join(sorted(piece.decode() for piece in self._encoded.intersection(pieces)))
        matches = re.finditer(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])", text)
        return [(match.start(), self.words[match[0]]) for match in matches]


class Counts:
    """Words of spans of a text, and an upper bound of their spaCy tokens.

    A span begins and ends with a character that is no white space.
    """

    def __init__(self, text: str, extra: Extra) -> None:
        size = len(text)
        kind = kinds(text)
        run = np.full(size + 2, SPACE, np.uint8)  # with a blank on both sides
        run[1:-1] = kind & _RUN_KIND
        before, run, after = run[:-2], run[1:-1], run[2:]
        is_space = run == SPACE

        # A token begins with each run of letters or of digits, and is each other character; so is white space
        # where it is not one blank.
        begins = (run != before) | (run == OTHER)
        tokens = np.where(is_space, (kind >= GAP) | (before == SPACE) | (after == SPACE), begins)
        self._tokens = np.zeros(size + 1, np.int32)
        np.cumsum(tokens, out=self._tokens[1:])
        for start, more in extra.places(text):
            self._tokens[start + 1 :] += more

        self._words = np.zeros(size + 1, np.int32)
        np.cumsum((before == SPACE) > is_space, out=self._words[1:])
        self._inside = np.zeros(size + 1, bool)
        self._inside[:-1] = ~(begins | is_space)

    def tokens(self, starts: Places, ends: Places) -> npt.NDArray[np.int32]:
        """At least as many as the tokens of each span, of those that cut no run.

        >>> Counts("I cannot go", Extra({"cannot": 1})).tokens(*np.array([[0, 2], [11, 8]])).tolist()
        [4, 2]
        """
        return self._tokens[ends] - self._tokens[starts]

    def words(self, starts: Places, ends: Places) -> npt.NDArray[np.int32]:
        """The words of each span between blanks.

        >>> Counts("Go on, then", Extra({})).words(*np.array([[0, 3], [6, 11]])).tolist()
        [2, 2]
        """
        begun = self._words[starts + 1] - self._words[starts]
        words: npt.NDArray[np.int32] = self._words[ends] - self._words[starts] + (begun == 0)
        return words

    def cut(self, starts: Places, ends: Places) -> npt.NDArray[np.bool_]:
        """True for spans that begin or end inside a run of letters or digits."""
        return self._inside[starts] | self._inside[ends]
