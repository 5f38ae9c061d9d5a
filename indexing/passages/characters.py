"""Kinds of a text's characters, by a table, and counts of tokens in its spans: one pass over a text in place
of a regular expression for each of its sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

OTHER, SPACE, LETTER, DIGIT, ALPHABETIC, GAP = 0, 1, 2, 4, 8, 16
"""White space, what `[^\\W\\d_]` and `\\d` match, or none of these; beside these, what `str.isalpha` is true
for, and white space that is no blank."""
_LETTERS, _DIGITS, _MARK, _BLANK, _GAP = 1, 2, 4, 8, 16
"""Bits of the kinds of tokens. A blank is a token if another one is beside it, and a gap always is."""


def _bit(kind: int) -> int:
    if kind & SPACE:
        return _BLANK | _GAP if kind & GAP else _BLANK
    return _LETTERS if kind & LETTER else _DIGITS if kind & DIGIT else _MARK


_OWN = bytes(_bit(kind) for kind in range(256))
_AFTER = bytes(
    _GAP | (_LETTERS | _DIGITS | _MARK) & ~(bit & (_LETTERS | _DIGITS)) | bit & _BLANK for bit in _OWN
)
"""Kind of a character → its bits, and the bits with which the character after it begins a token."""
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
def _basic_plane() -> npt.NDArray[np.uint8]:
    return np.array([_kind(chr(code)) for code in range(0x10000)], np.uint8)


def kinds(text: str) -> bytes:
    """The kind of each character of a text without lone surrogates.

    >>> list(kinds("a 1."))
    [10, 1, 4, 0]
    """
    if text.isascii():
        return text.encode("ascii").translate(_ASCII)

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    if (beyond := np.flatnonzero(codes >= 0x10000)).size:
        result = _basic_plane()[np.where(codes < 0x10000, codes, 0)]
        result[beyond] = [_kind(text[place]) for place in beyond.tolist()]
        return result.tobytes()
    return _basic_plane()[codes].tobytes()


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
    """An upper bound of the spaCy tokens of spans of a text.

    A span begins and ends with a character that is no white space.
    """

    def __init__(self, text: str, extra: Extra) -> None:
        # A token begins with each run of letters or of digits, and is each other character, so that each
        # character is compared with the one before it; the text begins as after a mark.
        kind = kinds(text)
        own = np.frombuffer(kind.translate(_OWN), np.uint8)
        begins = np.frombuffer(_AFTER[OTHER : OTHER + 1] + kind.translate(_AFTER), np.uint8)[:-1] & own
        # Of several blanks the first is a token as well.
        blanks = own & _BLANK
        begins[:-1] |= blanks[:-1] & blanks[1:]

        self._own, self._begins = own, begins
        self._tokens = np.zeros(len(text) + 1, np.int32)
        np.cumsum(begins != 0, dtype=np.int32, out=self._tokens[1:])
        for start, more in extra.places(text):
            self._tokens[start + 1 :] += more

    def tokens(self, starts: Places, ends: Places) -> npt.NDArray[np.int32]:
        """At least as many as the tokens of each span, of those that cut no run.

        >>> Counts("I cannot go", Extra({"cannot": 1})).tokens(*np.array([[0, 2], [11, 8]])).tolist()
        [4, 2]
        """
        return self._tokens[ends] - self._tokens[starts]

    def cut(self, starts: Places, ends: Places) -> npt.NDArray[np.bool_]:
        """True for spans that begin or end inside a run of letters or digits."""
        inside = np.append((self._begins == 0) & (self._own < _BLANK), False)
        cut: npt.NDArray[np.bool_] = inside[starts] | inside[ends]
        return cut
