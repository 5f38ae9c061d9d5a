"""Rules of text: the form in which it is stored, and the equality of two texts."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from answermill.schemas.scripts import UNSPACED

_UNSPACED = re.compile(f"[{UNSPACED}]")
_SPACED = rf"[^\W{UNSPACED}]"
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]+"
)
"""Control characters but white space, marks of the writing direction, and characters of no width but
joiners."""
_BREAKS = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
_JOINERS = re.compile("[\u200c\u200d]+")
_JOINED = re.compile(
    "[\u0590-\u1cff\u2194\u2195\u2600-\u27bf\u2b1b\ua800-\ud7ff\ufb1d-\ufefc\U00010000-\U0001ffff]"
)
"""Letters of scripts that are spelt with joiners, such as Persian and Hindi; and emoji, among them symbols
such as U+2642 (Unicode Technical Standard 51)."""


def normalise(text: str) -> str:
    """The text as it is stored; every offset counts in it. Normalising it again changes nothing.

    Unicode NFC (the same word is then the same bytes to an index, a hash and the language detectors), no
    control or zero-width characters but joiners inside words, one blank between words, one line for each
    block of the page, no empty lines.
    """
    # Most texts are printable, at the latest without empty lines or with folded blanks, which takes longer.
    for tidy in (str, _stripped, _folded):
        if _is_tidy(tidied := tidy(text)):
            return unicodedata.normalize("NFC", tidied)

    # No lone surrogates.
    text = _JOINERS.sub(_joiner, _UNSEEN.sub("", text.encode("utf-8", "replace").decode("utf-8")))
    return _folded(unicodedata.normalize("NFC", text))


def _stripped(text: str) -> str:
    """The text without empty lines, and without white space at the edges of the others."""
    return "\n".join(filter(None, map(str.strip, text.splitlines())))


def _folded(text: str) -> str:
    """The text with one blank between words and one line end between lines."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def _is_tidy(text: str) -> bool:
    """True only if there is nothing in the text to remove or fold: most texts are so, and need no more."""
    edges = text[:1].isspace() or text[-1:].isspace()
    line = text.replace("\n", " ")
    return not edges and "  " not in line and line.isprintable()  # no control character is printable


def _joiner(match: re.Match[str]) -> str:
    """The first of some joiners if a letter that may need it is on both sides, else ''."""
    start, end = match.span()
    joins = start and _JOINED.match(match.string, start - 1) and _JOINED.match(match.string, end)
    return match[0][0] if joins else ""


def one_line(text: str) -> str:
    """The normalised text in one line, as titles and questions are stored."""
    return " ".join(normalise(text).split())


def visible(text: str) -> str:
    """An id or URL without control characters and marks of the writing direction, on one line, otherwise
    unchanged."""
    return text if text.isprintable() else _BREAKS.sub(" ", _UNSEEN.sub("", text))


def fold(text: str) -> str:
    """The text with letter case and white space folded; two sentences are the same if these are equal."""
    return " ".join(text.casefold().split())


def holds(text: str, words: str) -> bool:
    """True if the words stand in the text, one after the other; both are folded. Where a script has no
    blanks, a word may begin and end anywhere."""
    if not words:
        return False
    before = "" if _UNSPACED.match(words[0]) else f"(?<!{_SPACED})"
    after = "" if _UNSPACED.match(words[-1]) else f"(?!{_SPACED})"
    return re.search(f"{before}{re.escape(words)}{after}", text) is not None


def fold_all(texts: pa.Array) -> pa.Array:
    """`fold` of each text; null stays null. Arrow folds the texts in ASCII, which are most."""
    plain = pc.ascii_lower(texts)
    other = pc.fill_null(not_plain(plain), False)
    places = np.flatnonzero(other.to_numpy(zero_copy_only=False))
    if not len(places):
        return plain
    folded = [fold(text) for text in texts.take(pa.array(places)).to_pylist()]
    return pc.replace_with_mask(plain, other, pa.array(folded, pa.string()))


def not_plain(texts: pa.Array) -> pa.Array:
    """True for a text with a character that is not printable ASCII, or a blank too many; null stays null."""
    return pc.match_substring_regex(texts, r"[^\x20-\x7e]|^ |  | $")
