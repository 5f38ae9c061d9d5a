"""The text rules that everyone needs: how a text is stored, and when two texts are the same."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]+")


def normalise(text: str) -> str:
    """The text as it is stored: every offset counts in the result. Normalising it again changes nothing."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
    text = unicodedata.normalize("NFC", _UNSEEN.sub("", text))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def fold(text: str) -> str:
    """The text with letter case and white space folded: what 'the same sentence' means."""
    return " ".join(text.casefold().split())


def fold_all(texts: pa.Array) -> pa.Array:
    """`fold` of each text; null stays null. In ASCII, where most are, Arrow folds."""
    plain = pc.ascii_lower(texts)
    rare = pc.match_substring_regex(plain, r"[^\x20-\x7e]|^ |  | $")
    places = np.flatnonzero(pc.fill_null(rare, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return plain
    folded = [fold(text) for text in texts.take(pa.array(places)).to_pylist()]
    return pc.replace_with_mask(plain, pc.fill_null(rare, False), pa.array(folded, pa.string()))
