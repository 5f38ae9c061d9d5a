"""Kinds of a text's characters, by a table, and counts of tokens in its spans: one pass over a text in place
of a regular expression for each of its sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from answermill.schemas.scripts import UNSPACED as UNSPACED_LETTERS

OTHER, SPACE, LETTER, DIGIT, ALPHABETIC, GAP, UNSPACED = 0, 1, 2, 4, 8, 16, 32
"""White space, what `[^\\W\\d_]` and `\\d` match, or none of these; beside these, what `str.isalpha` is true
for, white space that is no blank, and what scripts without blanks are written with."""
_LETTERS, _DIGITS, _MARK, _BLANK, _GAP = 1, 2, 4, 8, 16
"""Bits of the kinds of tokens. A blank is a token if another one is beside it, and a gap always is."""


def _bit(kind: int) -> int:
    if kind & SPACE:
        return _BLANK | _GAP if kind & GAP else _BLANK
    if kind & UNSPACED:
        return _MARK
    return _LETTERS if kind & LETTER else _DIGITS if kind & DIGIT else _MARK


_UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
_LETTER = rf"[^\W\d_{UNSPACED_LETTERS}]"
_LETTER_RUN = re.compile(f"{_LETTER}+")
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
    if _UNSPACED.match(character):
        kind |= UNSPACED
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

    # Two bytes are a character, unless one in the text is beyond the basic plane.
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    if len(codes) == len(text):
        return _basic_plane().take(codes).tobytes()

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    beyond = np.flatnonzero(codes >= 0x10000)
    result = _basic_plane()[np.where(codes < 0x10000, codes, 0)]
    result[beyond] = [_kind(text[place]) for place in beyond.tolist()]
    return result.tobytes()


class Extra:
    """Words that spaCy takes apart, such as 'cannot': each with its tokens beyond one."""

    def __init__(self, words: Mapping[str, int]) -> None:
        self.words = {word: extra for word, extra in words.items() if word.isalpha()}
        # Bytes that are no ASCII letters end a word here, so that none is overlooked.
        self._pattern = f"(?:^|[^A-Za-z])(?:{'|'.join(self.words)})(?:[^A-Za-z]|$)"

    def places(self, text: str) -> list[tuple[int, int]]:
        """(start, extra tokens) of each of the words in a text.

        >>> Extra({"cannot": 1}).places("I cannot, cannots.")
        [(2, 1)]
        """
        # Few lines have any: Arrow finds those in a tenth of the time of `re`.
        encoded = pa.array(text.encode("utf-8", "replace").split(b"\n"), pa.binary())
        has_some = pc.match_substring_regex(encoded, self._pattern)
        if not pc.any(has_some).as_py():
            return []

        places, start = list[tuple[int, int]](), 0
        for line, has in zip(text.split("\n"), has_some.to_pylist(), strict=True):
            if has:
                words = "|".join(sorted(self.words.keys() & _LETTER_RUN.findall(line)))
                matches = re.finditer(f"(?<!{_LETTER})(?:{words})(?!{_LETTER})", line) if words else ()
                places += [(start + match.start(), self.words[match[0]]) for match in matches]
            start += len(line) + 1
        return places


class Counts:
    """An upper bound of the spaCy tokens of spans of a text; in scripts that are written without blanks, of
    which spaCy makes one token, two characters are a token.

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

        self._unspaced = np.zeros(len(text) + 1, np.int32)
        if not text.isascii():
            is_unspaced = np.frombuffer(kind, np.uint8) & UNSPACED != 0
            np.cumsum(is_unspaced, dtype=np.int32, out=self._unspaced[1:])
            begins[_seconds(np.flatnonzero(is_unspaced))] = 0

        self._own, self._begins = own, begins
        counts = (begins != 0).view(np.uint8)  # no word has more than a few
        for start, more in extra.places(text):
            counts[start] += more
        self._tokens = np.zeros(len(text) + 1, np.int32)
        np.cumsum(counts, dtype=np.int32, out=self._tokens[1:])
        self._blanks = np.zeros(len(text) + 1, np.int32)
        np.cumsum(own == _BLANK, dtype=np.int32, out=self._blanks[1:])

    def tokens(self, starts: Places, ends: Places) -> npt.NDArray[np.int32]:
        """At least as many as the tokens of each span, of those that cut no run.

        >>> Counts("I cannot go", Extra({"cannot": 1})).tokens(*np.array([[0, 2], [11, 8]])).tolist()
        [4, 2]
        """
        return self._tokens[ends] - self._tokens[starts]

    def words(self, starts: Places, ends: Places) -> npt.NDArray[np.int32]:
        """The words of each span, of a text that has one blank between two words. Where more are written
        without blanks, two characters are a word.

        >>> Counts("I cannot go", Extra({"cannot": 1})).words(*np.array([[0, 2], [11, 8]])).tolist()
        [3, 1]
        >>> Counts("東京は日本の首都です。", Extra({})).words(*np.array([[0], [11]])).tolist()
        [5]
        """
        spaced = self._blanks[ends] - self._blanks[starts] + 1
        unspaced = self._unspaced[ends] - self._unspaced[starts]
        words: npt.NDArray[np.int32] = np.maximum(spaced, unspaced // 2)
        return words

    def cut(self, starts: Places, ends: Places) -> npt.NDArray[np.bool_]:
        """True for spans that begin or end inside a run of letters or digits, or between the two characters
        of a token."""
        inside = np.append((self._begins == 0) & (self._own < _BLANK), False)
        cut: npt.NDArray[np.bool_] = inside[starts] | inside[ends]
        return cut


def _seconds(places: Places) -> Places:
    """Every second place of each run of places [n] beside each other, which ascend.

    >>> _seconds(np.array([2, 3, 4, 5, 9, 10])).tolist()
    [3, 5, 10]
    """
    first = np.diff(places, prepend=-2) != 1
    run_starts = np.maximum.accumulate(np.where(first, places, 0))
    seconds: Places = places[(places - run_starts) % 2 == 1]
    return seconds
