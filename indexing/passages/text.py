"""The text rules that everyone needs: how a text is stored, and when two texts are the same."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]+")


def normalise(text: str) -> str:
    """The text as it is stored; every offset counts in it. Normalising it again changes nothing.

    Unicode NFC (the same word is then the same bytes to an index, a hash and the language detectors), no control or zero-width
    characters, one blank between words, one line for each block of the page, no empty lines.
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
    text = unicodedata.normalize("NFC", _UNSEEN.sub("", text))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def fold(text: str) -> str:
    """The text with letter case and white space folded; two sentences are the same if these are equal."""
    return " ".join(text.casefold().split())


def fold_all(texts: pa.Array) -> pa.Array:
    """`fold` of each text; null stays null. Arrow folds the texts in ASCII, which are most."""
    plain = pc.ascii_lower(texts)
    other = pc.match_substring_regex(plain, r"[^\x20-\x7e]|^ |  | $")
    places = np.flatnonzero(pc.fill_null(other, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return plain
    folded = [fold(text) for text in texts.take(pa.array(places)).to_pylist()]
    return pc.replace_with_mask(plain, pc.fill_null(other, False), pa.array(folded, pa.string()))
